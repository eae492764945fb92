"""From logits of action tokens to log-probs, and from one uniform number to a token.

Acting and evaluating use the same :func:`log_probs`, so they agree at every temperature. Where
tokens are drawn from the k likeliest, which those were is kept with the decision: a ratio of
probabilities is one over the same tokens, and a token that has left the k likeliest since would
have none.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

WORD = 64
"""Tokens whose choice is kept in one int64."""


def likeliest(logits: Tensor, k: int) -> Tensor | None:
    """Which tokens may be drawn, bool `[..., bins]`: the k likeliest, those as likely as the last
    of them included. None, which is all, where k is 0 or less, or not less than there are."""
    if not 0 < k < logits.shape[-1]:
        return None
    return logits >= logits.topk(k, dim=-1).values[..., -1:]


def log_probs(logits: Tensor, *, temperature: float, allowed: Tensor | None = None) -> Tensor:
    """Log-probs fp32 `[..., bins]` of softmax(logits / temperature).

    Args:
        allowed: bool `[..., bins]`, the tokens it is over; the others have -inf. None: all.
    """
    scaled = logits.float() / temperature
    if allowed is not None:
        scaled = scaled.masked_fill(~allowed, -torch.inf)
    return torch.log_softmax(scaled, dim=-1)


def packed(allowed: Tensor) -> Tensor:
    """bool `[..., bins]` -> int64 `[..., words]`, a bit a token."""
    missing = -allowed.shape[-1] % WORD
    bits = F.pad(allowed.long(), (0, missing)).unflatten(-1, (-1, WORD))
    return (bits << torch.arange(WORD, device=bits.device)).sum(dim=-1)


def unpacked(words: Tensor, bins: int) -> Tensor:
    """What :func:`packed` was given."""
    bits = (words[..., None] >> torch.arange(WORD, device=words.device)) & 1
    return bits.flatten(-2)[..., :bins].bool()


def inverse_cdf(logprobs: Tensor, uniform: Tensor) -> Tensor:
    """The token at which the cumulated probability first exceeds a number of [0, 1).

    Args:
        logprobs: `[..., bins]`.
        uniform: `[...]`.

    Returns:
        Indices int64 `[...]`.
    """
    cumulated = logprobs.double().exp().cumsum(dim=-1)
    # rounding may leave the total just below 1, and a token of probability 0 must not be drawn
    below = uniform.double()[..., None] * cumulated[..., -1:]
    return (cumulated <= below).sum(dim=-1).clamp(max=logprobs.shape[-1] - 1)


def chosen(logprobs: Tensor, indices: Tensor) -> Tensor:
    """Log-probs `[...]` of the given tokens."""
    return logprobs.gather(-1, indices[..., None]).squeeze(-1)


def entropy(logprobs: Tensor) -> Tensor:
    """-sum p log p, `[...]`; tokens that can't be drawn count nothing."""
    terms = logprobs.exp() * logprobs.masked_fill(logprobs == -torch.inf, 0.0)
    return -terms.sum(dim=-1)
