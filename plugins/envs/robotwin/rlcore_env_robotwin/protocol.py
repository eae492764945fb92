"""The published evaluations: OpenVLA-OFT on seven tasks, and all 46 by family. Light."""

from __future__ import annotations

from typing import Any

from rlcore.specs import ProtocolSpec
from rlcore_env_robotwin.tasks import FAMILIES

# The tasks of the published table, with the time limits of their recipes.
STEPS = {
    "beat_block_hammer": 200,
    "pick_dual_bottles": 100,
    "place_empty_cup": 200,
    "place_container_plate": 150,
    "move_can_pot": 200,
    "lift_pot": 200,
    "handover_block": 400,
}


def _row(task: str, **settings: Any) -> dict[str, dict[str, Any]]:
    return {task: {"tasks": [task], **settings}}


TABLE = ProtocolSpec(
    env="robotwin",
    groups={task: _row(task, max_episode_steps=steps) for task, steps in STEPS.items()},
    averages={"Average": tuple(STEPS)},
    may_differ=("max_episode_steps",),
)
ALL = ProtocolSpec(
    env="robotwin",
    groups={
        family: {name: row for task in tasks for name, row in _row(task).items()}
        for family, tasks in FAMILIES.items()
    },
    totals={"all": tuple(FAMILIES)},
)
