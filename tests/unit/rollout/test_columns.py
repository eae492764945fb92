"""Columns taken, joined and ordered: nothing is lost, doubled or mixed up."""

from __future__ import annotations

import pytest
import torch

from rlcore.rollout.columns import LIGHT, append, canonical, join, pad, take


def same(a, b):
    """Equal light arrays, and equal inputs and replay of every decision."""
    for name in LIGHT:
        if name != "sample_index":
            assert torch.equal(getattr(a, name), getattr(b, name)), name
    made = a.sample_index >= 0
    assert torch.equal(made, b.sample_index >= 0)
    for heavy in ("inputs", "replay"):
        for name, array in getattr(a, heavy).items():
            other = getattr(b, heavy)[name]
            assert len(array) == len(other) == int(made.sum())
            assert torch.equal(array[a.sample_index[made]], other[b.sample_index[made]]), name


def test_taken_columns_keep_their_decisions(play):
    trajectory = play(chunks=6, columns=5)
    part = take(trajectory, [3, 1])
    assert part.trial[0].tolist() == [3, 1]
    for place, column in enumerate((3, 1)):
        before = trajectory.sample_index[:, column]
        after = part.sample_index[:, place]
        made = before >= 0
        assert torch.equal(made, after >= 0)
        for name in trajectory.inputs:
            assert torch.equal(
                trajectory.inputs[name][before[made]], part.inputs[name][after[made]]
            )
    # its decisions and no others
    count = int((trajectory.sample_index[:, [1, 3]] >= 0).sum())
    assert sorted(part.sample_index[part.sample_index >= 0].tolist()) == list(range(count))
    assert all(len(array) == count for array in (*part.inputs.values(), *part.replay.values()))


@pytest.mark.parametrize("split", [[[0, 1, 2, 3, 4]], [[4, 2], [0, 3, 1]], [[1], [], [0, 2, 3, 4]]])
def test_joined_parts_are_the_whole(play, split):
    trajectory = play(chunks=6, columns=5)
    same(join([take(trajectory, columns) for columns in split]), trajectory)


def test_appended_parts_keep_their_order(play):
    trajectory = play(chunks=6, columns=5)
    parts = [take(trajectory, columns) for columns in ([4, 2], [], [0])]
    whole = append(parts)
    assert whole.trial[0].tolist() == [4, 2, 0]
    same(whole, take(trajectory, [4, 2, 0]))


def test_a_shorter_part_is_filled_up_without_decisions(play):
    long = play(chunks=6, columns=2, seed=1)
    short = play(chunks=4, columns=2, seed=2)
    short.trial += 2
    whole = join([short, long])
    assert whole.shape[:2] == (6, 4)
    assert whole.trial[0].tolist() == [0, 1, 2, 3]
    assert (whole.sample_index[4:, 2:] == -1).all() and not whole.valid[4:, 2:].any()
    same(take(whole, [0, 1]), long)
    assert torch.equal(whole.rewards[:4, 2:], short.rewards)


def test_padding_leaves_the_part_alone(play):
    trajectory = play(chunks=3)
    before = trajectory.sample_index.clone()
    pad(trajectory, 3).sample_index.fill_(7)
    assert torch.equal(trajectory.sample_index, before)


def test_columns_in_canonical_order_are_not_copied(play):
    trajectory = play()
    assert canonical(trajectory) is trajectory
