"""How RLinf's files name the settings of LIBERO. Light."""

from __future__ import annotations

from typing import Any

from rlcore.config.imports import Foreign, ImportRule
from rlcore_env_libero.suites import SUITES

PUBLISHED = "published runs train and evaluate on all 50 init states"


def _suite(name: Any, _: Foreign) -> Any:
    if name not in SUITES:
        raise ValueError(f"the suites are {', '.join(SUITES)}")
    return name


def _square(height: Any, foreign: Foreign) -> Any:
    sides = [f"env.{side}.init_params.camera_widths" for side in ("train", "eval")]
    if any(foreign.get(side, height) != height for side in sides):
        raise ValueError("frames are square here")
    return height


def _trials(_: Any, foreign: Foreign) -> int:
    """Their evaluation gives each env an episode: 500 envs play 50 of each of 10 tasks."""
    played = foreign.get("env.eval.total_num_envs") or 0
    tasks = SUITES.get(foreign.get("env.eval.task_suite_name"), ())
    return max(1, played // max(1, len(tasks)))


RULES = (
    ImportRule("env.*.task_suite_name", "env.*.suite", "the task suite", _suite),
    ImportRule(
        "env.*.init_params.camera_heights", "env.*.image_size", "frames are square", _square
    ),
    ImportRule("env.*.init_params.camera_widths", None, "env.*.image_size is both"),
    ImportRule(
        "env.*.reset_gripper_open", None, "the gripper is open while things settle", only=(True,)
    ),
    ImportRule("", "env.*.starts", PUBLISHED, lambda *_: "all"),
    ImportRule("", "env.eval.split", PUBLISHED, lambda *_: "train"),
    ImportRule("", "env.eval.allow_training_trials", PUBLISHED, lambda *_: True),
    ImportRule("", "env.eval.trials_per_task", "as many episodes as theirs, each once", _trials),
)
