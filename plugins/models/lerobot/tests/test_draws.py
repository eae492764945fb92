"""Draws of torch from the keys of rows; needs no LeRobot."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from rlcore_model_lerobot.draws import drawing_from
from torch.distributions import Beta

from rlcore.contracts.rng import RowKeys

CPU = torch.device("cpu")
KEYS = RowKeys(tuple((7, row) for row in range(3)))
WEIGHTS = torch.tensor([[1.0, 2.0, 0.0, 5.0], [0.0, 1.0, 1.0, 1.0], [3.0, 1.0, 4.0, 0.0]])


def drawn(function, keys: RowKeys = KEYS):
    with drawing_from(keys, CPU):
        return function(len(keys), slice(keys.keys[0][1], keys.keys[-1][1] + 1))


def tokens(rows, of):
    """Draw two tokens of each row, as VQ-BeT does: `[2 * rows, 1]`, those of a row together."""
    return torch.multinomial(WEIGHTS[of].repeat_interleave(2, 0), 1).view(rows, 2)


FUNCTIONS = {
    "randn": lambda rows, of: torch.randn(rows, 2),
    "randn_like": lambda rows, of: torch.randn_like(torch.zeros(rows, 2)),
    "normal": lambda rows, of: torch.normal(1.0, 2.0, (rows, 2)),
    "rand": lambda rows, of: torch.rand((rows, 2)),
    "rand_like": lambda rows, of: torch.rand_like(torch.zeros(rows, 2)),
    "randint": lambda rows, of: torch.randint(0, 100, (rows, 2)),
    "beta": lambda rows, of: Beta(1.5, 1.0).sample((rows,)),
    "beta of more": lambda rows, of: Beta(torch.tensor([1.5, 3.0]), 1.0).sample((rows,)),
    "multinomial": tokens,
    "multinomial, several": lambda rows, of: torch.multinomial(WEIGHTS[of], 5, replacement=True),
}


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
def test_a_row_alone_draws_what_it_draws_in_a_batch(function):
    whole = drawn(function)
    assert len(whole) == len(KEYS) and not torch.equal(whole[0], whole[1])
    for row, key in enumerate(KEYS.keys):
        assert torch.equal(drawn(function, RowKeys((key,)))[0], whole[row])


def test_tokens_have_the_shares_of_their_weights():
    keys = RowKeys(tuple((row,) for row in range(3)))
    with drawing_from(keys, CPU):
        drawn = torch.multinomial(WEIGHTS, num_samples=20000, replacement=True)
    for row in range(3):
        shares = np.bincount(drawn[row].numpy(), minlength=4) / 20000
        expected = (WEIGHTS[row] / WEIGHTS[row].sum()).numpy()
        # five standard errors of a share: 5 * sqrt(0.25 / 20000)
        np.testing.assert_allclose(shares, expected, rtol=0, atol=0.018)
        assert not shares[expected == 0].any()


def test_beta_has_the_moments_of_beta():
    """Mean a / (a + b) = 0.6; variance a b / ((a + b)^2 (a + b + 1)) = 1.5 / (6.25 * 3.5)."""
    keys = RowKeys(tuple((row,) for row in range(4000)))
    with drawing_from(keys, CPU):
        times = Beta(1.5, 1.0).sample((len(keys),))
    variance = 1.5 / (6.25 * 3.5)
    assert abs(times.mean() - 0.6) < 5 * (variance / len(keys)) ** 0.5
    assert abs(times.var() - variance) < 0.1 * variance


def test_several_tokens_without_replacement_are_torchs():
    """They come from torch's generator: what is drawn here has no repetition."""
    found = drawn(lambda rows, of: torch.multinomial(torch.ones(rows, 4), 4))
    assert found.sort(-1).values.tolist() == [[0, 1, 2, 3]] * 3


def test_no_other_device_is_seeded(monkeypatch):
    """Only the state of the device that is used is restored."""

    def seed_all(seed: int) -> None:
        raise AssertionError("generators of all devices are seeded")

    monkeypatch.setattr(torch.cuda, "manual_seed_all", seed_all)
    state = torch.get_rng_state()
    first, again = (drawn(lambda rows, of: torch.bernoulli(torch.full((50,), 0.5))) for _ in "12")
    assert torch.equal(first, again)
    assert torch.equal(torch.get_rng_state(), state)
