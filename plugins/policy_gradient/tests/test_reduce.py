"""Granularity and weights against loops over elements."""

import itertools

import numpy as np
import pytest
import torch
from rlcore_policy_gradient.minibatch import Weights
from rlcore_policy_gradient.reduce import at_level, batch_weights, entropy_at_level, valid_at_level

LEVELS = ("token_level", "action_level", "chunk_level")


def test_levels_by_hand():
    # one chunk of three actions with two entries; the third action was not executed
    x = torch.tensor([[1.0, 2.0], [4.0, 8.0], [64.0, float("nan")]])
    valid = torch.tensor([True, True, False])
    assert at_level(x, valid, "token_level").tolist() == [[1, 2], [4, 8], [0, 0]]
    assert at_level(x, valid, "action_level").tolist() == [[3], [12], [0]]
    assert at_level(x, valid, "chunk_level").tolist() == [[15]]
    assert valid_at_level(valid, 2, "token_level").tolist() == [[True] * 2, [True] * 2, [False] * 2]
    assert valid_at_level(valid, 2, "action_level").tolist() == [[True], [True], [False]]
    assert valid_at_level(valid, 2, "chunk_level").tolist() == [[True]]
    assert not valid_at_level(torch.zeros(3, dtype=torch.bool), 2, "chunk_level").any()


def test_an_entropy_per_chunk_is_not_summed_again():
    # two chunks of two actions with three entries; the second chunk was never executed
    valid = torch.tensor([[True, False], [False, False]])
    mean = torch.tensor([0.7, float("nan")])[:, None, None]
    for level in LEVELS:
        assert entropy_at_level(mean, valid, level).tolist() == [
            [[pytest.approx(0.7)]],
            [[0.0]],
        ]
    # elementwise: the three entries of the executed action, 3 * 0.5
    entries = torch.full((2, 2, 3), 0.5)
    assert entropy_at_level(entries, valid, "chunk_level").flatten().tolist() == [1.5, 0.0]


def test_weights_by_hand():
    # column 0: 3 + 1 valid elements of one episode; column 1: 2 of episode 0, then 2 of episode 1
    valid = torch.tensor([[[1, 1, 1], [1, 1, 0]], [[1, 0, 0], [1, 1, 0]]]).bool().unsqueeze(-1)
    episode = torch.tensor([[0, 0], [0, 1]])

    def per_chunk(aggregation):  # weight of the first element of each chunk
        return batch_weights(valid, episode, aggregation)[:, :, 0, 0].tolist()

    eighth, third = 1 / 8, pytest.approx(1 / 3)  # 8 elements, 3 episodes
    assert per_chunk("token-mean") == [[eighth] * 2] * 2
    assert per_chunk("seq-mean-token-sum") == [[third] * 2] * 2
    twelfth, sixth = pytest.approx(1 / 12), pytest.approx(1 / 6)  # 1 / (3 * 4) and 1 / (3 * 2)
    assert per_chunk("seq-mean-token-mean") == [[twelfth, sixth]] * 2


def loop_aggregate(x, valid, episode, aggregation):
    """The loss by the words: mean over elements, or mean over episodes of their sum or mean."""
    T, N = valid.shape[:2]
    sequences = {}
    for t, n in itertools.product(range(T), range(N)):
        for place in np.ndindex(*valid.shape[2:]):
            if valid[(t, n, *place)]:
                sequences.setdefault((n, int(episode[t, n])), []).append(float(x[(t, n, *place)]))
    if aggregation == "token-mean":
        return np.mean([value for values in sequences.values() for value in values])
    reduce = np.sum if aggregation == "seq-mean-token-sum" else np.mean
    return np.mean([reduce(values) for values in sequences.values()])


@pytest.mark.parametrize(
    "level, aggregation, auto_reset",
    list(
        itertools.product(
            LEVELS, ("token-mean", "seq-mean-token-sum", "seq-mean-token-mean"), (False, True)
        )
    ),
)
def test_aggregation_against_a_loop(play, level, aggregation, auto_reset):
    trajectory = play(columns=7, auto_reset=auto_reset, seed=5)
    trajectory.valid[:, 2] = False  # a filtered column leaves the denominator too
    elements = valid_at_level(trajectory.valid, 2, level)
    x = torch.randn(elements.shape, generator=torch.Generator().manual_seed(0))
    weights = batch_weights(elements, trajectory.episode, aggregation)
    expected = loop_aggregate(x, elements, trajectory.episode, aggregation)
    assert float((weights * x).sum()) == pytest.approx(expected, abs=1e-5)
    assert float(weights[~elements].abs().sum()) == 0


def test_weights_without_anything_valid_are_zero():
    valid = torch.zeros(2, 3, 2, 1, dtype=torch.bool)
    for aggregation in ("token-mean", "seq-mean-token-sum", "seq-mean-token-mean"):
        assert batch_weights(valid, torch.zeros(2, 3).long(), aggregation).abs().sum() == 0


def test_a_part_stands_for_the_whole_batch():
    # policy weights add up to 1 (a mean), value weights to 4 (a sum per episode)
    batch = Weights(torch.full((4, 1, 1), 0.25), torch.full((4, 1, 1), 0.25), torch.ones(4, 1))
    part = batch[torch.tensor([1, 3])].as_whole_batch(batch.sums())
    assert part.policy.flatten().tolist() == [0.5, 0.5]
    assert part.value.flatten().tolist() == [2.0, 2.0]
    assert part.sums() == (1.0, 1.0, 4.0)
