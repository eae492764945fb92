"""Define the published evaluation of all suites: every task from every init state."""

from __future__ import annotations

from rlcore_simulation.published import published

from rlcore.contracts.specs import ProtocolSpec
from rlcore_env_libero.suites import STEPS

# Columns of published tables, and their suites.
COLUMNS = {
    "Object": "libero_object",
    "Spatial": "libero_spatial",
    "Goal": "libero_goal",
    "Long": "libero_10",
    "90": "libero_90",
}

ALL_SUITES = ProtocolSpec(
    env="libero",
    groups={
        column: {
            suite: {
                "suite": suite,
                "tasks": None,
                "starts": "all",
                "split": "train",
                "trials_per_task": 50,
                "max_episode_steps": STEPS[suite],
            }
        }
        for column, suite in COLUMNS.items()
    },
    totals={"130": tuple(COLUMNS)},
    may_differ=("max_episode_steps", "starts", "split", "trials_per_task"),
    **published(__file__, "libero_130"),
)
