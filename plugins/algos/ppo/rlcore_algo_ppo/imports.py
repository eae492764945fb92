"""Rules that translate settings in RLinf's files to those of PPO. Imports no tensor library."""

from __future__ import annotations

from typing import Any

from rlcore_tools.import_rules import Foreign, ImportRule

NO_GROUPS = "PPO has no groups"


def _bootstrap(value: Any, foreign: Foreign) -> Any:
    """Return RLinf's `bootstrap_type` with auto_reset, else "none".

    RLinf bootstraps only where an episode ends inside a column, which happens with auto_reset
    alone; without it a time limit counts as a termination.
    """
    return value if foreign.get("env.train.auto_reset") else "none"


RULES = (
    ImportRule(
        "algorithm.bootstrap_type",
        "algorithm.bootstrap_type",
        "only with auto_reset there; without, a time limit is an end",
        _bootstrap,
        silent="standard",
    ),
    ImportRule("algorithm.filter_rewards", None, NO_GROUPS, only=(False,)),
    ImportRule("algorithm.rewards_lower_bound", None, NO_GROUPS),
    ImportRule("algorithm.rewards_upper_bound", None, NO_GROUPS),
)
