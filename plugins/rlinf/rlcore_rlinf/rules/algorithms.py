"""Import settings of PPO and GRPO."""

from __future__ import annotations

from typing import Any

from rlcore_rlinf.rule import ImportRule, RLinfFile, table

NO_CRITIC = "GRPO has no critic"
NO_GROUPS = "PPO has no groups"


def _bootstrap(value: Any, file: RLinfFile) -> Any:
    """Return `bootstrap_type` with auto_reset, else "none".

    RLinf bootstraps only where an episode ends inside a column, which happens with auto_reset
    alone; without it a time limit counts as a termination.
    """
    return value if file.get("env.train.auto_reset") else "none"


GRPO = table(
    dropped={
        "algorithm.gamma": "the score of an episode is its undiscounted return",
        "algorithm.gae_lambda": NO_CRITIC,
        "algorithm.value_clip": NO_CRITIC,
        "algorithm.huber_delta": NO_CRITIC,
        "algorithm.bootstrap_type": NO_CRITIC,
        "actor.optim.value_lr": NO_CRITIC,
        "actor.optim.critic_warmup_steps": NO_CRITIC,
    }
)
PPO = table(
    ImportRule(
        "algorithm.bootstrap_type",
        "algorithm.bootstrap_type",
        "RLinf bootstraps only with auto_reset; without it a time limit is a termination",
        _bootstrap,
        default="standard",
    ),
    harmless={"algorithm.filter_rewards": (NO_GROUPS, (False,))},
    dropped={
        "algorithm.rewards_lower_bound": NO_GROUPS,
        "algorithm.rewards_upper_bound": NO_GROUPS,
    },
)
