"""Exploration at several scales, against numbers worked out by hand."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from rlcore_off_policy.arms import UNUSED
from rlcore_off_policy.exploration import Exploration, spread_of_demonstrations

from rlcore.contracts.protocols import PolicyOutput
from rlcore.contracts.rng import DecisionKey, RowKeys

TASK = ("a",)


def keys(phase: str, decision: int, trials=range(400)) -> RowKeys:
    return RowKeys(tuple(DecisionKey(0, phase, 2, 0, trial, 0, decision) for trial in trials))


def decided(rows: int) -> PolicyOutput:
    zeros = torch.zeros(rows, 2, 2)
    return PolicyOutput(zeros.numpy(), zeros, zeros[:, 0, :0], {"n": torch.arange(rows)})


def exploration() -> Exploration:
    made = Exploration([0.0, 0.5], 2)
    made.spread.copy_(torch.tensor([0.4, 0.0]))
    return made


def test_an_episode_keeps_its_scale_and_its_offset():
    made = exploration()
    first, later = (made.explored(decided(400), keys("train", number), TASK) for number in (0, 5))
    assert np.array_equal(first.actions, later.actions)
    assert torch.equal(first.replay["explore"], later.replay["explore"])
    assert first.replay["n"].tolist() == list(range(400))
    still = first.replay["explore"] == 0
    assert not first.actions[still.numpy()].any()
    moved = first.actions[~still.numpy()]
    # the same for both actions of the chunk; 0.5 x 0.4, and nothing in an entry without spread
    assert np.array_equal(moved[:, 0], moved[:, 1]) and not moved[..., 1].any()
    assert moved[..., 0].std() == pytest.approx(0.2, abs=0.03)


@pytest.mark.parametrize("other", [keys("eval", 0, range(3)), RowKeys((("pad",), (1, 2), ("a",)))])
def test_other_rows_than_those_of_training_stay(other):
    assert not exploration().explored(decided(3), other, TASK).actions.any()


def test_before_the_spread_is_known_nothing_is_explored():
    output = Exploration([0.5, 1.0], 2).explored(decided(400), keys("train", 0), TASK)
    assert not output.actions.any() and set(output.replay["explore"].tolist()) == {UNUSED}


class Demonstrations:
    """Four frames of two demonstrations: first actions (1, -1), (3, -1) and (5, 1), (5, 1). Tokens
    differ from frame to frame, as those of a policy that reads its state as tokens do.

    Args:
        number: numbers of the frames' demonstrations.
    """

    def __init__(self, number=(0, 0, 1, 1)):
        self.number = torch.tensor(number)

    def count(self, among):
        return 4

    def inputs(self, rows):
        return {"tokens": torch.arange(8, dtype=torch.int32).reshape(4, 2)[rows]}

    def demonstration(self, rows):
        return self.number[rows]

    def action_targets(self, rows):
        first = torch.tensor([[1.0, -1], [3, -1], [5, 1], [5, 1]])
        return torch.stack([first, first + 9], dim=1)[rows], torch.ones(4, 2, dtype=torch.bool)


def test_the_spread_is_that_within_a_demonstration():
    learning = SimpleNamespace(replay=Demonstrations())
    # deviations of -1, 1, 0, 0 and none: the root of 2 / (4 - 2)
    spread = spread_of_demonstrations(learning, torch.arange(4))
    assert spread.tolist() == pytest.approx([1.0, 0.0])


@pytest.mark.parametrize(("number", "warned"), [((0, 0, 1, 1), False), ((0, 1, 2, 3), True)])
def test_demonstrations_without_spread_are_reported(monkeypatch, number, warned):
    made = Exploration([0.0, 0.5], 2)
    monkeypatch.setattr(made.scales, "learn", lambda learning: None)
    learning = SimpleNamespace(
        replay=Demonstrations(number), sample=lambda count, among: torch.arange(4),
        statistics={}, warnings={},
    )  # fmt: skip
    made.learn(learning)
    assert ("algorithm.explore" in learning.warnings.get("explore", "")) is warned
