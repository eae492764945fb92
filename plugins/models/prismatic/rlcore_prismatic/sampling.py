"""From logits of action tokens to log-probs, and from one uniform number to a token.

Acting and evaluating use the same :func:`log_probs`, so they agree at every temperature. With
top-k sampling the k most likely tokens are stored with the decision. A ratio of probabilities must
be over the same tokens, and a token that is no longer among the k most likely would have none.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from rlcore_prismatic.settings import WORD


def likeliest(logits: Tensor, k: int) -> Tensor | None:
    """Which tokens may be drawn, bool `[..., bins]`: the k most likely, and those as likely as the
    last of them. None, which means all, if k is 0 or less, or at least the number of tokens."""
    if not 0 < k < logits.shape[-1]:
        return None
    return logits >= logits.topk(k, dim=-1).values[..., -1:]


def log_probs(logits: Tensor, *, temperature: float, allowed: Tensor | None = None) -> Tensor:
    """Log-probs fp32 `[..., bins]` of softmax(logits / temperature).

    Args:
        allowed: bool `[..., bins]`, the tokens of the softmax; the others have -inf. None: all.
    """
    scaled = logits.float() / temperature
    if allowed is not None:
        scaled = scaled.masked_fill(~allowed, -torch.inf)
    return torch.log_softmax(scaled, dim=-1)


def packed(allowed: Tensor) -> Tensor:
    """bool `[..., bins]` -> int64 `[..., words]`, one bit per token."""
    missing = -allowed.shape[-1] % WORD
    bits = F.pad(allowed.long(), (0, missing)).unflatten(-1, (-1, WORD))
    return (bits << torch.arange(WORD, device=bits.device)).sum(dim=-1)


def unpacked(words: Tensor, bins: int) -> Tensor:
    """The inverse of :func:`packed`."""
    bits = (words[..., None] >> torch.arange(WORD, device=words.device)) & 1
    return bits.flatten(-2)[..., :bins].bool()


def inverse_cdf(logprobs: Tensor, uniform: Tensor) -> Tensor:
    """The token at which the cumulative probability first exceeds a number in [0, 1).

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
    """Log-probs `[...]` of the given tokens."""
    return logprobs.gather(-1, indices[..., None]).squeeze(-1)


def entropy(logprobs: Tensor) -> Tensor:
    """-sum p log p, `[...]`; tokens that can't be drawn add nothing."""
    terms = logprobs.exp() * logprobs.masked_fill(logprobs == -torch.inf, 0.0)
    return -terms.sum(dim=-1)
