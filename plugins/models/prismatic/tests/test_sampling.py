"""Distributions of tokens, and tokens from uniform numbers, by hand."""

from __future__ import annotations

import math

import pytest
import torch
from rlcore_prismatic.sampling import chosen, entropy, inverse_cdf, log_probs

LOGITS = torch.log(torch.tensor([[1.0, 4.0, 16.0, 4.0]]))  # of 25


def test_temperature_by_hand():
    # at temperature 2 the odds are square roots: 1, 2, 4, 2 of 9
    found = log_probs(LOGITS, temperature=2.0, top_k=-1).exp()
    torch.testing.assert_close(found, torch.tensor([[1, 2, 4, 2]]) / 9)


def test_top_k_keeps_what_is_as_likely_as_the_last():
    found = log_probs(LOGITS, temperature=1.0, top_k=2).exp()
    torch.testing.assert_close(found, torch.tensor([[0, 4, 16, 4]]) / 24)
    everything = log_probs(LOGITS, temperature=1.0, top_k=-1)
    for k in (0, 4, 100):
        assert torch.equal(log_probs(LOGITS, temperature=1.0, top_k=k), everything)


@pytest.mark.parametrize(
    ("uniform", "token"), [(0.0, 0), (0.039, 0), (0.041, 1), (0.199, 1), (0.21, 2), (0.9999999, 3)]
)
def test_inverse_cdf(uniform, token):
    # cumulated: .04, .2, .84, 1
    logprobs = log_probs(LOGITS, temperature=1.0, top_k=-1)
    assert inverse_cdf(logprobs, torch.tensor([uniform])).item() == token


def test_a_token_that_has_no_probability_is_never_drawn():
    logprobs = log_probs(LOGITS, temperature=1.0, top_k=1)
    for uniform in (0.0, 0.5, math.nextafter(1.0, 0.0)):
        assert inverse_cdf(logprobs, torch.tensor([uniform], dtype=torch.float64)).item() == 2
    assert entropy(logprobs).item() == 0


def test_tokens_come_as_often_as_they_should():
    logprobs = log_probs(LOGITS, temperature=1.0, top_k=-1).expand(2500, 4)
    uniform = (torch.arange(2500, dtype=torch.float64) + 0.5) / 2500
    assert inverse_cdf(logprobs, uniform).bincount().tolist() == [100, 400, 1600, 400]


def test_entropy_and_choice_by_hand():
    logprobs = torch.log(torch.tensor([[0.5, 0.25, 0.25]]))
    assert entropy(logprobs).item() == pytest.approx(1.5 * math.log(2))
    assert chosen(logprobs, torch.tensor([1])).item() == pytest.approx(math.log(0.25))
