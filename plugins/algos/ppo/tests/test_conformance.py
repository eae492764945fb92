"""The checks that rlcore has for every algorithm, at each granularity of rewards and ratios."""

import pytest
from rlcore_testing import AlgorithmConformance, ReplayConformance


class TestPPO(AlgorithmConformance):
    name = "ppo"


@pytest.mark.long
class TestPPOPerAction(AlgorithmConformance):
    name = "ppo"
    settings = {
        "reward_type": "action_level",
        "logprob_type": "token_level",
        "entropy_type": "action_level",
        "entropy_bonus": 0.01,
        "bootstrap_type": "standard",
        "loss_agg_func": "seq-mean-token-mean",
    }


class TestPPOWithAReference(AlgorithmConformance):
    name = "ppo"
    settings = {
        "logprob_type": "action_level",
        "kl_beta": 0.1,
        "bootstrap_type": "always",
        "normalize_advantages": False,
        "clip_ratio_c": 3.0,
        "clip_log_ratio": 5.0,
        "critic_warmup_updates": 3,
        "target_kl": 0.1,
        "loss_agg_func": "seq-mean-token-sum",
    }


class TestPPOThatImitates(ReplayConformance):
    name = "ppo"
    settings = {
        "imitation": {"coefficient": 0.5, "batch_size": 16},
        "kl_beta": 0.01,
        "decay_start": 0.5,
        "desired_kl": 0.01,
        "update_epoch": 2,
        "normalize_among": "task",
    }
