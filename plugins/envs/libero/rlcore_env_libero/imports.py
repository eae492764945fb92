"""Define rules that import RLinf's settings of LIBERO. Imports no simulator."""

from __future__ import annotations

from typing import Any

from rlcore_tools.import_rules import UNSAID, Foreign, ImportRule

from rlcore_env_libero.suites import SUITES

OPENVLA = ("openvla", "openvla_oft")
AS_TRAINED = "theirs evaluates on the starts of training, too"


def _suite(suite: Any, _: Foreign) -> str:
    if suite not in SUITES:
        raise ValueError(f"the suites are {', '.join(SUITES)}")
    return str(suite)


def _square(height: Any, foreign: Foreign) -> Any:
    if any(
        foreign.get(f"env.{side}.init_params.camera_widths", height) != height
        for side in ("train", "eval")
    ):
        raise ValueError("frames are square here")
    return height


def _gripper(_: Any, foreign: Foreign) -> Any:
    return "binary" if foreign.get("actor.model.model_type") in OPENVLA else UNSAID


def _cameras(_: Any, foreign: Foreign) -> Any:
    """Render only the scene's camera if the policy takes one image, without the wrist's."""
    one = foreign.get("actor.model.num_images_in_input") == 1
    return ["agentview"] if one and _gripper(None, foreign) is not UNSAID else UNSAID


def _trials(_: Any, foreign: Foreign) -> int:
    """Return the trials per task, at most 50, for as many episodes as RLinf's evaluation plays."""
    suite = foreign.get("env.eval.task_suite_name")
    return min(50, max(1, foreign.episodes() // len(SUITES.get(str(suite), SUITES["libero_10"]))))


def _last(_: Any, foreign: Foreign) -> Any:
    return UNSAID if foreign.get("env.train.auto_reset") else False


RULES = (
    ImportRule("env.*.task_suite_name", "env.*.suite", "the set of tasks", _suite),
    ImportRule(
        "env.*.init_params.camera_heights", "env.*.image_size", "frames are square", _square
    ),
    ImportRule("env.*.init_params.camera_widths", None, "env.*.image_size is both"),
    ImportRule("", "env.*.starts", "all 50 init states", lambda *_: "all"),
    ImportRule("", "env.*.settle_steps", "their env waits 15 steps", lambda *_: 15),
    ImportRule("", "env.*.gripper", "as the policy's checkpoints give it", _gripper),
    ImportRule("", "env.*.cameras", "those that the policy takes", _cameras),
    ImportRule("", "env.eval.split", AS_TRAINED, lambda *_: "train"),
    ImportRule("", "env.eval.allow_training_trials", AS_TRAINED, lambda *_: True),
    ImportRule("", "env.eval.trials_per_task", "as many episodes as theirs, each once", _trials),
    ImportRule(
        "", "env.*.render_final", "nothing reads the last frame where a time limit is an end", _last
    ),
)
