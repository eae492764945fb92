"""Import settings of LIBERO."""

from __future__ import annotations

from typing import Any

from rlcore_rlinf.rule import UNSET, ImportRule, RLinfFile, constant, table
from rlcore_rlinf.rules.envs import LAST_FRAME, one_of, trials_per_task

TASKS = {
    "libero_spatial": 10,
    "libero_object": 10,
    "libero_goal": 10,
    "libero_10": 10,
    "libero_90": 90,
    "libero_130": 130,
}
"""Number of tasks of each suite."""
OPENVLA = ("openvla", "openvla_oft")
AS_TRAINED = "RLinf also evaluates on the training starts"


def _square(height: Any, file: RLinfFile) -> Any:
    sides = (f"env.{side}.init_params.camera_widths" for side in ("train", "eval"))
    if any(file.get(width, height) != height for width in sides):
        raise ValueError("rlcore's frames are square")
    return height


def _gripper(_: Any, file: RLinfFile) -> Any:
    return "binary" if file.get("actor.model.model_type") in OPENVLA else UNSET


def _cameras(_: Any, file: RLinfFile) -> Any:
    """Render only the scene's camera if the policy takes one image, without the wrist's."""
    single = file.get("actor.model.num_images_in_input") == 1
    openvla = file.get("actor.model.model_type") in OPENVLA
    return ["agentview"] if single and openvla else UNSET


def _tasks(file: RLinfFile) -> int:
    return TASKS.get(str(file.get("env.eval.task_suite_name")), TASKS["libero_10"])


RULES = table(
    ImportRule(
        "env.*.task_suite_name",
        "env.*.suite",
        "the set of tasks",
        one_of({name: name for name in TASKS}, "the suites are"),
    ),
    ImportRule(
        "env.*.init_params.camera_heights", "env.*.image_size", "frames are square", _square
    ),
    constant("env.*.starts", "all 50 init states", "all"),
    constant("env.*.settle_steps", "RLinf's env waits 15 steps", 15),
    ImportRule("", "env.*.gripper", "as the policy's checkpoints output it", _gripper),
    ImportRule("", "env.*.cameras", "the cameras that the policy reads", _cameras),
    constant("env.eval.split", AS_TRAINED, "train"),
    constant("env.eval.allow_training_trials", AS_TRAINED, True),
    trials_per_task(_tasks, most=50),
    LAST_FRAME,
    dropped={"env.*.init_params.camera_widths": "env.*.image_size sets both sides"},
)
