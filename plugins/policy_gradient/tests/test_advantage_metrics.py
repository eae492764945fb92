"""Metrics of advantages, by hand."""

import pytest
import torch
from rlcore_policy_gradient.advantage import advantage_metrics
from rlcore_policy_gradient.minibatch import Advantages


@pytest.mark.parametrize("per_action", [False, True])
def test_advantage_metrics_by_hand(per_action):
    # two chunks of two actions; the second action of the second chunk was not executed
    valid = torch.tensor([[[True, True]], [[True, False]], [[False, False]]])
    advantages = torch.tensor([[[1.0, 2.0]], [[-6.0, 99.0]], [[99.0, 99.0]]])
    returns = torch.tensor([[[1.0, 2.0]], [[3.0, 99.0]], [[99.0, 99.0]]])
    if not per_action:
        advantages, returns = advantages[..., :1], returns[..., :1]
    metrics = advantage_metrics(Advantages(advantages, returns, valid))
    assert metrics == {
        "rollout/advantages_mean": -1.0 if per_action else -2.5,
        "rollout/advantages_max": 2.0 if per_action else 1.0,
        "rollout/advantages_min": -6.0,
        "rollout/value_targets_mean": 2.0,
    }


def test_no_critic_no_returns_and_nothing_trained_nothing_said():
    valid = torch.ones(1, 1, 2, dtype=torch.bool)
    no_critic = Advantages(torch.ones(1, 1, 1), torch.zeros(1, 1, 0), valid)
    assert "rollout/value_targets_mean" not in advantage_metrics(no_critic)
    assert advantage_metrics(Advantages(torch.ones(1, 1, 1), torch.ones(1, 1, 1), ~valid)) == {}
