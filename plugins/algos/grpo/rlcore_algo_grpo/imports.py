"""Rules that translate settings in RLinf's files to those of GRPO. Imports no tensor library."""

from __future__ import annotations

from rlcore_tools.import_rules import ImportRule

NO_CRITIC = "there is no critic"

RULES = (
    ImportRule("algorithm.gamma", None, "the score of an episode is its undiscounted return"),
    ImportRule("algorithm.gae_lambda", None, NO_CRITIC),
    ImportRule("algorithm.value_clip", None, NO_CRITIC),
    ImportRule("algorithm.huber_delta", None, NO_CRITIC),
    ImportRule("algorithm.bootstrap_type", None, NO_CRITIC),
    ImportRule("actor.optim.value_lr", None, NO_CRITIC),
    ImportRule("actor.optim.critic_warmup_steps", None, NO_CRITIC),
)
