"""The training setting of put-on-plate and its out-of-distribution suites, as published. Light."""

from __future__ import annotations

from typing import Any

from rlcore.specs import ProtocolSpec
from rlcore_env_maniskill.tasks import MAIN, SUITES

STEPS = 80


def _row(task: str) -> dict[str, Any]:
    """The task with its whole default set of objects: those of training for the main task, the
    held-out ones for a variant."""
    return {
        "tasks": [task],
        "split": "heldout",
        "object_set": None,
        "hold": {},
        "max_episode_steps": STEPS,
    }


OOD = ProtocolSpec(
    env="maniskill",
    groups={
        "Training setting (IND)": {MAIN: _row(MAIN)},
        **{
            suite.capitalize(): {task: _row(task) for task in tasks}
            for suite, tasks in SUITES.items()
        },
    },
    averages={"Average of OOD": tuple(suite.capitalize() for suite in SUITES)},
    may_differ=("max_episode_steps",),
)
