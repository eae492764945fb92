"""Compute log-probs from logits of action tokens, and sample a token from a uniform number.

Acting and evaluating use the same :func:`log_probs`, so they agree at every temperature. With
top-k sampling the set of the k most likely tokens is stored with the decision: both probabilities
of a ratio must be over the same set, and a token that has left the top k would have probability 0.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from rlcore_prismatic.settings import WORD


def likeliest(logits: Tensor, k: int) -> Tensor | None:
    """Return which tokens may be sampled, bool `[..., bins]`: the k most likely, including ties.

    Returns None, for all tokens, if k <= 0 or k is at least the number of tokens.
    """
    if not 0 < k < logits.shape[-1]:
        return None
    return logits >= logits.topk(k, dim=-1).values[..., -1:]


def log_probs(logits: Tensor, *, temperature: float, allowed: Tensor | None = None) -> Tensor:
    """Return the log-probs fp32 `[..., bins]` of softmax(logits / temperature).

    Args:
        allowed: bool `[..., bins]`, the tokens of the softmax; the others have -inf. None: all.
    """
    scaled = logits.float() / temperature
    if allowed is not None:
        scaled = scaled.masked_fill(~allowed, -torch.inf)
    return torch.log_softmax(scaled, dim=-1)


def packed(allowed: Tensor) -> Tensor:
    """Pack a mask bool `[..., bins]` into int64 `[..., words]`, one bit per token."""
    missing = -allowed.shape[-1] % WORD
    bits = F.pad(allowed.long(), (0, missing)).unflatten(-1, (-1, WORD))
    return (bits << torch.arange(WORD, device=bits.device)).sum(dim=-1)


def unpacked(words: Tensor, bins: int) -> Tensor:
    """Unpack the result of :func:`packed` to bool `[..., bins]`."""
    bits = (words[..., None] >> torch.arange(WORD, device=words.device)) & 1
    return bits.flatten(-2)[..., :bins].bool()


def inverse_cdf(logprobs: Tensor, uniform: Tensor) -> Tensor:
    """Return the token at which the cumulative probability first exceeds a number in [0, 1).

    Args:
        logprobs: `[..., bins]`.
        uniform: `[...]`.

    Returns:
        Indices int64 `[...]`.
    """
    cumulated = logprobs.double().exp().cumsum(dim=-1)
    # rounding may leave the total below 1, and a token of probability 0 must not be drawn
    below = uniform.double()[..., None] * cumulated[..., -1:]
    return (cumulated <= below).sum(dim=-1).clamp(max=logprobs.shape[-1] - 1)


def chosen(logprobs: Tensor, indices: Tensor) -> Tensor:
    """Select the log-probs `[...]` of the given tokens."""
    return logprobs.gather(-1, indices[..., None]).squeeze(-1)


def entropy(logprobs: Tensor) -> Tensor:
    """Return the entropy -sum p log p, `[...]`; tokens of probability 0 contribute 0."""
    terms = logprobs.exp() * logprobs.masked_fill(logprobs == -torch.inf, 0.0)
    return -terms.sum(dim=-1)
