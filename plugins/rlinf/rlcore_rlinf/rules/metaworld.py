"""Import settings of MetaWorld."""

from __future__ import annotations

from typing import Any

from rlcore.config.schema import CHECKPOINT
from rlcore_rlinf.rule import UNSET, ImportRule, RLinfFile, constant, table
from rlcore_rlinf.rules.envs import LAST_FRAME, one_of, trials_per_task

SUITES = {
    "metaworld_50": "mt50",
    "metaworld_45_ind": "ml45_train",
    "metaworld_45_ood": "ml45_test",
}
TASKS = {"metaworld_50": 50, "metaworld_45_ind": 45, "metaworld_45_ood": 5}
"""Number of tasks of each suite."""
SENTENCES = "rlinf/envs/metaworld/metaworld_config.json"
EXECUTED = [0, 1, 2, 6]  # position and gripper of a 7-dof action; MetaWorld's arm does not rotate
ARM_ACTION_DIM = 7
NOT_READ = "RLinf's env does not read it: its frames have 480 x 480 pixels"


def _sentences(_: Any, file: RLinfFile) -> str:
    """Return the source of RLinf's instructions: the file in its checkout, else the checkpoint."""
    source = file.nearby(SENTENCES)
    return CHECKPOINT if source is None else f"{source}:TASK_DESCRIPTIONS"


def _entries(_: Any, file: RLinfFile) -> Any:
    """Select the four entries that this arm executes, if the model's actions have seven."""
    return EXECUTED if file.get("actor.model.action_dim") == ARM_ACTION_DIM else UNSET


def _tasks(file: RLinfFile) -> int:
    return TASKS.get(str(file.get("env.eval.task_suite_name")), TASKS["metaworld_50"])


RULES = table(
    ImportRule(
        "env.*.task_suite_name",
        "env.*.benchmark",
        "the set of tasks",
        one_of(SUITES, "the task suites are"),
    ),
    constant("env.*.image_size", "RLinf's frame size, regardless of init_params", 480),
    constant("env.*.settle_steps", "RLinf's env waits 16 steps", 16),
    ImportRule("", "env.*.sentences", "RLinf's instructions", _sentences),
    trials_per_task(
        _tasks, "as many episodes as RLinf, each start once; RLinf draws starts at random"
    ),
    LAST_FRAME,
    ImportRule("", "actor.model.action_entries", "the arm does not rotate", _entries),
    dropped={
        "env.*.init_params.camera_heights": NOT_READ,
        "env.*.init_params.camera_widths": NOT_READ,
    },
)
