"""Exploration at several scales, against numbers worked out by hand."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from rlcore_off_policy.exploration import (
    SCALE,
    Exploration,
    better,
    episodes_by_scale,
    spread_of_demonstrations,
)

from rlcore.contracts.protocols import PolicyOutput
from rlcore.contracts.rng import DecisionKey, RowKeys


def keys(phase: str, decision: int, trials=range(400), task=0) -> RowKeys:
    return RowKeys(tuple(DecisionKey(0, phase, 2, task, trial, 0, decision) for trial in trials))


def decided(rows: int) -> PolicyOutput:
    zeros = torch.zeros(rows, 2, 2)
    return PolicyOutput(zeros.numpy(), zeros, zeros[:, 0, :0], {"n": torch.arange(rows)})


def exploration() -> Exploration:
    made = Exploration([0.0, 0.5], 2)
    made.spread.copy_(torch.tensor([0.4, 0.0]))
    made.chances[0] = torch.tensor([0.25, 0.75])
    made.chances[1] = torch.tensor([1.0, 0.0])
    return made


def test_an_episode_keeps_its_scale_and_its_offset():
    made = exploration()
    first, later = (made.explored(decided(400), keys("train", number)) for number in (0, 5))
    assert np.array_equal(first.actions, later.actions)
    assert torch.equal(first.replay[SCALE], later.replay[SCALE])
    assert first.replay["n"].tolist() == list(range(400))
    still = first.replay[SCALE] == 0
    assert float(still.float().mean()) == pytest.approx(0.25, abs=0.07)
    assert not first.actions[still.numpy()].any()
    moved = first.actions[~still.numpy()]
    # the same for both actions of the chunk; 0.5 x 0.4, and nothing in an entry without spread
    assert np.array_equal(moved[:, 0], moved[:, 1]) and not moved[..., 1].any()
    assert moved[..., 0].std() == pytest.approx(0.2, abs=0.02)
    assert not made.explored(decided(400), keys("train", 0, task=1)).actions.any()


@pytest.mark.parametrize("other", [keys("eval", 0, range(3)), RowKeys((("pad",), (1, 2), ("a",)))])
def test_other_rows_than_those_of_training_stay(other):
    assert not exploration().explored(decided(3), other).actions.any()


def test_before_the_spread_is_known_nothing_is_explored():
    assert not Exploration([0.5, 1.0], 2).explored(decided(400), keys("train", 0)).actions.any()


def test_scales_that_succeed_are_drawn_more_often():
    # three episodes at each scale, 2 and 0 succeed: 3/5 and 1/5; two at each, 1 and 2: 2/4 and 3/4
    counts = torch.tensor([[[3, 2], [3, 0]], [[2, 1], [2, 2]]]).double()
    assert better(counts).flatten().tolist() == pytest.approx([0.75, 0.25, 0.4, 0.6])
    assert better(torch.zeros(1, 4, 2).double()).tolist() == [[0.25] * 4]


def played():
    """Two chunks of four episodes: of task 0 at scales 1 (success) and 0, of task 1 at scale 1
    (one success that this rank does not hold, and one failure)."""
    flags = torch.zeros(2, 4, 1, dtype=torch.bool)
    terminated, truncated = flags.clone(), flags.clone()
    terminated[1, 0] = terminated[0, 2] = True
    truncated[1, 1] = truncated[1, 3] = True
    valid = ~flags
    valid[1, 2] = False
    success = terminated[..., 0]
    return SimpleNamespace(
        valid=valid, terminated=terminated, truncated=truncated, success=success,
        task=torch.tensor([0, 0, 1, 1]).expand(2, 4),
        sample_index=torch.tensor([[0, 2, -1, 4], [1, 3, -1, 5]]),
        replay={SCALE: torch.tensor([1, 1, 0, 0, 1, 1])},
    )  # fmt: skip


class Demonstrations:
    """Four frames of two instructions: first actions (1, -1), (3, -1) and (5, 1), (5, 1)."""

    def count(self, among):
        return 4

    def inputs(self, rows):
        words = torch.tensor([[7, 1], [7, 1], [7, 2], [7, 2]], dtype=torch.int32)
        return {"image": torch.zeros(4, 2, dtype=torch.uint8), "words": words[rows]}

    def action_targets(self, rows):
        first = torch.tensor([[1.0, -1], [3, -1], [5, 1], [5, 1]])
        return torch.stack([first, first + 9], dim=1)[rows], torch.ones(4, 2, dtype=torch.bool)


def learning():
    return SimpleNamespace(
        rollout=played(), env=SimpleNamespace(tasks=("a", "b")), replay=Demonstrations(),
        all_reduce=lambda metrics: metrics.values(), statistics={},
        sample=lambda count, among: torch.arange(count),
    )  # fmt: skip


def test_episodes_are_counted_where_they_end():
    # task 0: one failure at scale 0, one success at 1; task 1: one failure at scale 1
    expected = [[[1, 0], [1, 1]], [[0, 0], [1, 0]]]
    assert episodes_by_scale(learning(), 2).tolist() == expected


def test_the_spread_is_that_within_an_instruction():
    # deviations of -1, 1, 0, 0 and none: the root of 2 / 4
    spread = spread_of_demonstrations(learning(), torch.arange(4))
    assert spread.tolist() == pytest.approx([0.5**0.5, 0.0])


def test_the_first_update_measures_the_spread_and_later_ones_move_the_chances():
    made, seen = Exploration([0.0, 0.5], 2), learning()
    made.learn(seen)
    assert made.spread.tolist() == pytest.approx([0.5**0.5, 0.0])
    assert made.chances[0].tolist() == [0.5, 0.5]
    made.learn(seen)
    # task 0: 1/3 and 2/3, which are their shares; task 1: 1/2 and 1/3, shares 3/5 and 2/5: half
    # way to it from 1/2 each
    expected = [5 / 12, 7 / 12, 11 / 20, 9 / 20]
    assert made.chances[:2].flatten().tolist() == pytest.approx(expected)
    assert made.chances[2].tolist() == [0.5, 0.5]
    assert seen.statistics["train/explore/scale"] == pytest.approx(0.5 * (7 / 12 + 9 / 20) / 2)
