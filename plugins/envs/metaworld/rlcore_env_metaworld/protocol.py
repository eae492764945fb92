"""Define the published evaluation of all 50 tasks, by difficulty.

Its settings are those of RLinf's evaluation script for pi0 and pi0.5. RLinf's training recipes use
fewer steps. This module imports no simulator.
"""

from __future__ import annotations

from rlcore_simulation.published import published

from rlcore.contracts.specs import ProtocolSpec
from rlcore_env_metaworld.tasks import DIFFICULTY

COLUMNS = {group: group.replace("_", " ").title() for group in DIFFICULTY}

MT50 = ProtocolSpec(
    env="metaworld",
    groups={
        column: {
            f"{len(DIFFICULTY[group])} {column.lower()} tasks": {
                "benchmark": "mt50",
                "tasks": list(DIFFICULTY[group]),
                "split": "heldout",
                "trials_per_task": 10,
                "max_episode_steps": 160,
                "settle_steps": 15,
            }
        }
        for group, column in COLUMNS.items()
    },
    averages={"Avg.": tuple(COLUMNS.values())},
    totals={"All episodes": tuple(COLUMNS.values())},
    may_differ=("split", "trials_per_task", "max_episode_steps"),
    **published(__file__, "metaworld_mt50"),
)
