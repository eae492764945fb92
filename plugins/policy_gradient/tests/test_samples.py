"""Samples and minibatches: shapes, keys, and what is dropped."""

import pytest
import torch
from rlcore_policy_gradient.advantage import gae
from rlcore_policy_gradient.samples import make_samples, minibatches
from rlcore_policy_gradient.settings import PolicyGradientConfig


def samples_of(trajectory, **settings):
    config = PolicyGradientConfig(name="toy", **settings)
    advantages = gae(
        trajectory,
        reward_type=config.reward_type,
        gamma=0.9,
        gae_lambda=0.9,
        bootstrap_type="none",
        normalize=False,
    )
    return make_samples(trajectory, advantages, config)


def test_places_are_chunks_in_row_order(play):
    trajectory = play(chunks=6, columns=5, auto_reset=True)
    samples = samples_of(trajectory)
    assert len(samples) == 30
    assert torch.equal(samples.old_logprobs[7], trajectory.logprobs[1, 2])
    assert samples.row[7] == trajectory.sample_index[1, 2]
    assert samples.advantages.shape == (30, 1) and samples.weights.value.shape == (30, 1)


@pytest.mark.parametrize("width, reward_type", [(1, "chunk_level"), (3, "action_level")])
def test_value_weights_follow_the_width_of_values(play, width, reward_type):
    trajectory = play(value_width=width)
    samples = samples_of(trajectory, reward_type=reward_type, logprob_type="action_level")
    counted = trajectory.valid if width == 3 else trajectory.valid.any(-1, keepdim=True)
    expected = counted.flatten(0, 1).float() / counted.sum()
    torch.testing.assert_close(samples.weights.value, expected)


def test_an_epoch_visits_every_trained_sample_once(play):
    samples = samples_of(play(chunks=9, columns=11))
    assert not samples.trained.all()
    batches = list(minibatches(samples, 16, seed=0, update=0, epoch=0))
    seen = torch.cat(batches)
    assert sorted(seen.tolist()) == samples.trained.nonzero().flatten().tolist()


def test_order_is_keyed_by_seed_update_and_epoch(play):
    samples = samples_of(play(chunks=9, columns=11))

    def order(**key):
        return torch.cat(list(minibatches(samples, 16, **key))).tolist()

    base = {"seed": 0, "update": 3, "epoch": 1}
    assert order(**base) == order(**base)
    for change in ({"seed": 1}, {"update": 4}, {"epoch": 2}):
        assert order(**base) != order(**{**base, **change})


def test_cuts_come_before_drops(play):
    """Each minibatch is the masked one: 16 places of the permutation, thinned out."""
    trajectory = play(chunks=8, columns=8)
    everything = samples_of(trajectory)
    everything.valid = torch.ones_like(everything.valid)
    whole = list(minibatches(everything, 16, seed=0, update=0, epoch=0))
    samples = samples_of(trajectory)
    thinned = list(minibatches(samples, 16, seed=0, update=0, epoch=0))
    assert [len(batch) for batch in whole] == [16] * 4
    for all_places, kept in zip(whole, thinned, strict=True):
        assert kept.tolist() == [p for p in all_places.tolist() if samples.trained[p]]


@pytest.mark.parametrize(
    "places, sizes",
    [
        (40, [16, 16, 8]),  # half a minibatch stands alone
        (39, [16, 23]),  # 7 places are less than half of 16
        (7, [7]),
    ],
)
def test_a_small_remainder_joins_the_minibatch_before(play, places, sizes):
    samples = samples_of(play(chunks=places, columns=1))
    samples.valid = torch.ones_like(samples.valid)
    batches = list(minibatches(samples, 16, seed=0, update=0, epoch=0))
    assert [len(batch) for batch in batches] == sizes


def test_minibatches_without_a_valid_sample_are_skipped(play):
    samples = samples_of(play(chunks=4, columns=4))
    samples.valid = torch.zeros_like(samples.valid)
    samples.valid[5] = True
    assert [b.tolist() for b in minibatches(samples, 4, seed=0, update=0, epoch=0)] == [[5]]
