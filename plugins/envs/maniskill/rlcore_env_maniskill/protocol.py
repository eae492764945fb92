"""Protocol of put-on-plate's published table: its 16 settings and their averages. No simulator.

The settings are those of RL4VLA (its README, "Task definition") and of RLinf's `mani-ood`. Neither
says how the columns are computed. It was inferred from the published counts: each column is the
mean of its settings (128 or 256 episodes each), and "Average of OOD" is the mean of all 16
settings, including the training setting.
"""

from __future__ import annotations

from typing import Any

from rlcore_simulation.published import published

from rlcore.contracts.specs import ProtocolSpec
from rlcore_env_maniskill.tasks import MAIN, SUITES

STEPS = 80
EPISODES = 128
# Variants with a distractor. The table also has them with the training objects, where only the
# distractor differs from training.
ALSO_WITH_TRAINING = ("PutOnPlateInScene25MultiCarrot-v1", "PutOnPlateInScene25MultiPlate-v1")


def _row(task: str, object_set: str) -> dict[str, Any]:
    return {
        "tasks": [task],
        "split": "heldout",
        "object_set": object_set,
        "hold": {},
        "max_episode_steps": STEPS,
        "trials_per_task": EPISODES,
    }


def _suite(tasks: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    held_out = {task: _row(task, "test") for task in tasks}
    return held_out | {
        f"{task}-train": _row(task, "train") for task in tasks if task in ALSO_WITH_TRAINING
    }


# RLinf's script plays the training setting as Carrot-v1 with the training objects, which is equal.
GROUPS = {
    "Training setting (IND)": {MAIN: _row(MAIN, "train")},
    **{suite.capitalize(): _suite(tasks) for suite, tasks in SUITES.items()},
}
OOD = ProtocolSpec(
    env="maniskill",
    groups=GROUPS,
    averages={"Mean of the suites": tuple(suite.capitalize() for suite in SUITES)},
    totals={"Average of OOD": tuple(GROUPS)},
    may_differ=("max_episode_steps", "trials_per_task"),
    **published(__file__, "maniskill_ood"),
)
