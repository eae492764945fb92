"""Distributions of tokens, and tokens from uniform numbers, by hand."""

from __future__ import annotations

import math

import pytest
import torch
from rlcore_prismatic.sampling import (
    chosen,
    entropy,
    inverse_cdf,
    likeliest,
    log_probs,
    packed,
    unpacked,
)

LOGITS = torch.log(torch.tensor([[1.0, 4.0, 16.0, 4.0]]))  # of 25


def test_temperature_by_hand():
    # at temperature 2 the odds are square roots: 1, 2, 4, 2 of 9
    found = log_probs(LOGITS, temperature=2.0).exp()
    torch.testing.assert_close(found, torch.tensor([[1, 2, 4, 2]]) / 9)


def test_top_k_keeps_what_is_as_likely_as_the_last():
    allowed = likeliest(LOGITS, 2)
    assert allowed.tolist() == [[False, True, True, True]]
    found = log_probs(LOGITS, temperature=1.0, allowed=allowed).exp()
    torch.testing.assert_close(found, torch.tensor([[0, 4, 16, 4]]) / 24)
    for k in (-1, 0, 4, 100):
        assert likeliest(LOGITS, k) is None


def test_stored_tokens_are_scored_among_those_they_were_drawn_from():
    """Odds have become 64, 4, 16, 4 since: the first token is likeliest and still has none."""
    later = torch.log(torch.tensor([[64.0, 4.0, 16.0, 4.0]]))
    found = log_probs(later, temperature=1.0, allowed=likeliest(LOGITS, 2)).exp()
    torch.testing.assert_close(found, torch.tensor([[0, 4, 16, 4]]) / 24)


@pytest.mark.parametrize("bins", [3, 64, 100, 256])
def test_packing_by_hand(bins):
    allowed = torch.zeros(2, bins, dtype=torch.bool)
    allowed[0, 1] = allowed[0, 2] = allowed[1, -1] = True
    words = packed(allowed)
    # bits 1 and 2 of the first word: 2 + 4; bit 63 is the sign
    assert words[0].tolist() == [6, *[0] * (-(-bins // 64) - 1)]
    last = (bins - 1) % 64
    assert words[1, -1].item() == (-(2**63) if last == 63 else 2**last)
    assert torch.equal(unpacked(words, bins), allowed)


@pytest.mark.parametrize(
    ("uniform", "token"), [(0.0, 0), (0.039, 0), (0.041, 1), (0.199, 1), (0.21, 2), (0.9999999, 3)]
)
def test_inverse_cdf(uniform, token):
    # cumulated: .04, .2, .84, 1
    logprobs = log_probs(LOGITS, temperature=1.0)
    assert inverse_cdf(logprobs, torch.tensor([uniform])).item() == token


def test_a_token_that_has_no_probability_is_never_drawn():
    logprobs = log_probs(LOGITS, temperature=1.0, allowed=likeliest(LOGITS, 1))
    for uniform in (0.0, 0.5, math.nextafter(1.0, 0.0)):
        assert inverse_cdf(logprobs, torch.tensor([uniform], dtype=torch.float64)).item() == 2
    assert entropy(logprobs).item() == 0


def test_tokens_come_as_often_as_they_should():
    logprobs = log_probs(LOGITS, temperature=1.0).expand(2500, 4)
    uniform = (torch.arange(2500, dtype=torch.float64) + 0.5) / 2500
    assert inverse_cdf(logprobs, uniform).bincount().tolist() == [100, 400, 1600, 400]


def test_entropy_and_choice_by_hand():
    logprobs = torch.log(torch.tensor([[0.5, 0.25, 0.25]]))
    assert entropy(logprobs).item() == pytest.approx(1.5 * math.log(2))
    assert chosen(logprobs, torch.tensor([1])).item() == pytest.approx(math.log(0.25))
