"""The moving average of the policy's weights, with which it acts."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from rlcore.learner.average import AveragedWeights


def step(averaged: AveragedWeights, parameter: nn.Parameter, value: float) -> None:
    """Make an update of one step, after which the trained weight is `value`."""
    with averaged.training(), torch.no_grad():
        parameter.fill_(value)
        averaged.add()


def test_the_average_acts_and_training_goes_on_from_the_trained_weights():
    parameter = nn.Parameter(torch.zeros(1))
    averaged = AveragedWeights([parameter], 0.25)
    step(averaged, parameter, 4.0)
    assert parameter.item() == 1.0  # 0.75 * 0 + 0.25 * 4
    with averaged.training():
        assert parameter.item() == 4.0
    step(averaged, parameter, 9.0)
    assert parameter.item() == 3.0  # 0.75 * 1 + 0.25 * 9


def test_the_average_begins_with_the_weights_of_the_first_update():
    """Those are loaded, or imitate, after the learner was made."""
    parameter = nn.Parameter(torch.zeros(1))
    averaged = AveragedWeights([parameter], 0.5)
    with torch.no_grad():
        parameter.fill_(2.0)
    step(averaged, parameter, 4.0)
    assert parameter.item() == 3.0


def test_a_small_step_is_not_lost_in_bf16():
    parameter = nn.Parameter(torch.ones(1, dtype=torch.bfloat16))
    averaged = AveragedWeights([parameter], 2.0**-10)  # 1 + 2^-10 is 1 in bf16
    for _ in range(1000):
        step(averaged, parameter, 2.0)
    assert parameter.item() == pytest.approx(2 - (1 - 2.0**-10) ** 1000, abs=0.01)


def test_without_a_factor_the_trained_weights_act():
    parameter = nn.Parameter(torch.zeros(1))
    averaged = AveragedWeights([parameter], None)
    step(averaged, parameter, 4.0)
    assert parameter.item() == 4.0
    assert not averaged.state_dict() and not list(averaged.tensors())


def test_a_resumed_average_goes_on_as_if_nothing_had_happened():
    parameter = nn.Parameter(torch.zeros(2))
    averaged = AveragedWeights([parameter], 0.25)
    step(averaged, parameter, 4.0)
    resumed = nn.Parameter(parameter.detach().clone())  # as saved with the policy
    later = AveragedWeights([resumed], 0.25)
    later.load_state_dict(averaged.state_dict())
    for weights, holder in ((parameter, averaged), (resumed, later)):
        with holder.training():
            assert weights.tolist() == [4.0, 4.0]
        step(holder, weights, 9.0)
        assert weights.tolist() == [3.0, 3.0]


def test_a_state_without_an_average_begins_with_the_policys_weights():
    parameter = nn.Parameter(torch.ones(1))
    averaged = AveragedWeights([parameter], 0.5)
    step(averaged, parameter, 3.0)
    averaged.load_state_dict({})
    step(averaged, parameter, 4.0)  # from the average, 2
    assert parameter.item() == 3.0
