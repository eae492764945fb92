"""Samples of earlier weights count as often as the policy at the start of the update would."""

from __future__ import annotations

from math import log

import pytest
import torch
from rlcore_policy_gradient.decoupled import behaviour_weights

# two samples of two actions of two entries; the second action of sample 1 was not executed
BEHAVIOUR = torch.log(torch.tensor([[[0.5, 0.5], [0.4, 0.4]], [[0.2, 0.5], [0.1, 0.1]]]))
PROXIMAL = torch.log(torch.tensor([[[0.25, 0.5], [0.4, 0.6]], [[0.6, 0.4], [0.9, 0.9]]]))
VALID = torch.tensor([[True, True], [True, False]])


@pytest.mark.parametrize(
    ("level", "weights", "mean", "filtered"),
    [
        # sample 0: 0.25/0.5 * 1 * 1 * 0.6/0.4 = 0.75; sample 1: 3 * 0.8 = 2.4, more than 2
        ("chunk_level", [[[0.75]], [[0.0]]], (0.75 + 2.4) / 2, 1 / 2),
        # 0.5, 1.5 and 2.4; the action that was not executed has no weight of its own
        ("action_level", [[[0.5], [1.5]], [[0.0], [1.0]]], (0.5 + 1.5 + 2.4) / 3, 1 / 3),
        # 0.5, 1, 1, 1.5 and 3, 0.8
        ("token_level", [[[0.5, 1.0], [1.0, 1.5]], [[0.0, 0.8], [1.0, 1.0]]], 7.8 / 6, 1 / 6),
    ],
)
def test_weights_by_hand(level, weights, mean, filtered):
    found, metrics = behaviour_weights(
        proximal=PROXIMAL, behaviour=BEHAVIOUR, valid=VALID, level=level, threshold=2.0
    )
    torch.testing.assert_close(found, torch.tensor(weights))
    assert metrics["train/actor/behave_weight"].value(1) == pytest.approx(mean)
    assert metrics["train/actor/behave_filtered"].value(1) == pytest.approx(filtered)


def test_numbers_of_actions_that_were_not_executed_do_not_matter():
    """They may be anything, and a ratio that overflows is left out, not infinite."""
    behaviour, proximal = BEHAVIOUR.clone(), PROXIMAL.clone()
    behaviour[1, 1] = float("nan")
    proximal[0, 0, 0] = log(0.5) + 1000.0
    found, _ = behaviour_weights(
        proximal=proximal, behaviour=behaviour, valid=VALID, level="action_level", threshold=2.0
    )
    torch.testing.assert_close(found, torch.tensor([[[0.0], [1.5]], [[0.0], [1.0]]]))
