"""Sent trajectories: each column once, to the rank it belongs to."""

from __future__ import annotations

import pytest
import torch

from rlcore.rollout.columns import LIGHT, take
from rlcore.rollout.messages import Send
from rlcore.transport.trajectory import receive_trajectory, send_trajectory
from rlcore.workers.channel import interleave

COLUMNS = 7


def travel(trajectory, split, actors, **options):
    """Rollout rank r played the columns `split[r]`; what each of the actor ranks gets."""
    talks = []
    for rank, columns in enumerate(split):
        keys = [f"{rank}/{actor}" for actor in range(actors)]
        talks.append(send_trajectory(take(trajectory, columns), columns, keys, **options))
    for actor in range(actors):
        talks.append(
            receive_trajectory([f"{rank}/{actor}" for rank in range(len(split))], timeout=1.0)
        )
    return interleave(talks)[len(split) :]


def test_a_rank_that_gathered_nothing_sends_nothing(play):
    """Three actor ranks and two columns: the third one gets none, of the right shape."""
    trajectory = play(chunks=5, columns=2)
    talks = [
        send_trajectory(None, [], ["0/0", "0/1", "0/2"]),
        send_trajectory(trajectory, [0, 1], ["1/0", "1/1", "1/2"]),
        *(receive_trajectory([f"0/{actor}", f"1/{actor}"], timeout=1.0) for actor in range(3)),
    ]
    received = interleave(talks)[2:]
    assert [part.trial[0].tolist() for part in received] == [[0], [1], []]
    assert [part.shape[1] for part in received] == [1, 1, 0]
    assert received[2].inputs["features"].shape == (0, 4)


def decisions(trajectory, name):
    made = trajectory.sample_index >= 0
    arrays = {**trajectory.inputs, **trajectory.replay}
    return arrays[name][trajectory.sample_index[made]]


@pytest.mark.parametrize(
    "split", [[[0, 1, 2, 3, 4, 5, 6]], [[0, 2, 4, 6], [1, 3, 5]], [[6], [5, 0, 1, 2], [3, 4]]]
)
@pytest.mark.parametrize(("actors", "piece"), [(1, 10**9), (2, 1), (3, 300), (9, 300)])
def test_each_actor_rank_gets_its_columns(play, split, actors, piece):
    trajectory = play(chunks=5, columns=COLUMNS)
    received = travel(trajectory, split, actors, piece=piece)
    for rank, part in enumerate(received):
        mine = list(range(rank, COLUMNS, actors))
        expected = take(trajectory, mine)
        assert part.trial[0].tolist() == mine
        for name in LIGHT:
            if name != "sample_index":
                assert torch.equal(getattr(part, name), getattr(expected, name)), name
        for name in ("features", "action"):
            assert torch.equal(decisions(part, name), decisions(expected, name))
            assert decisions(part, name).dtype == decisions(expected, name).dtype


def test_pieces_are_bounded_unless_one_column_has_more(play):
    trajectory = play(chunks=5, columns=COLUMNS)
    # a decision: 4 float32 features, 3 x 2 float64 actions
    row = 4 * 4 + 6 * 8
    per_column = ((trajectory.sample_index >= 0).sum(0) * row).tolist()
    limit = max(per_column) + min(per_column)
    sent = list(send_trajectory(trajectory, range(COLUMNS), ["a"], piece=limit))
    assert all(isinstance(send, Send) and send.keys == ("a",) for send in sent)
    sizes = [
        sum(
            packed.data.nbytes
            for packed in (*send.message.inputs.values(), *send.message.replay.values())
        )
        for send in sent
    ]
    assert 1 < len(sizes) < COLUMNS and max(sizes) <= limit and sum(sizes) == sum(per_column)
    assert [send.message.last for send in sent] == [False] * (len(sent) - 1) + [True]
    single = list(send_trajectory(trajectory, range(COLUMNS), ["a"], piece=1))
    assert len(single) == COLUMNS


def test_a_received_trajectory_is_a_copy(play):
    trajectory = play()
    (received,) = travel(trajectory, [[0, 1, 2, 3, 4]], 1)
    before = trajectory.inputs["features"].clone()
    received.inputs["features"].fill_(0)
    received.rewards.fill_(0)
    assert torch.equal(trajectory.inputs["features"], before) and trajectory.rewards.any()


def test_bfloat16_is_sent(play):
    trajectory = play()
    trajectory.replay["chain"] = torch.randn(len(trajectory.inputs["features"]), 2).bfloat16()
    (received,) = travel(trajectory, [[0, 1, 2, 3, 4]], 1)
    assert received.replay["chain"].dtype == torch.bfloat16
    assert torch.equal(decisions(received, "chain"), decisions(trajectory, "chain"))
