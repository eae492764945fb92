"""The checks that rlcore has for every algorithm, with and without what GRPO can do besides."""

import pytest
from rlcore_testing import AlgorithmConformance


class TestGRPO(AlgorithmConformance):
    name = "grpo"


@pytest.mark.long
class TestGRPOPerToken(AlgorithmConformance):
    name = "grpo"
    settings = {
        "group_size": 4,
        "reward_type": "action_level",
        "logprob_type": "token_level",
        "clip_ratio_low": 0.2,
        "clip_ratio_high": 0.28,
        "normalize_advantages": False,
        "loss_agg_func": "seq-mean-token-mean",
    }


class TestGRPOWithAReferenceAndBounds(AlgorithmConformance):
    name = "grpo"
    settings = {
        "group_size": 4,
        "logprob_type": "action_level",
        "kl_beta": 0.1,
        "entropy_bonus": 0.01,
        "clip_ratio_c": 3.0,
        "filter_rewards": True,
        "rewards_lower_bound": -1.0,
        "rewards_upper_bound": 0.6,  # which cuts some groups of the bandit off
        "refill": True,
        "loss_agg_func": "seq-mean-token-sum",
    }
