"""From logits of action tokens to log-probs, and from one uniform number to a token.

Acting and evaluating use the same :func:`log_probs`, so they agree at every temperature.
"""

from __future__ import annotations

import torch
from torch import Tensor


def log_probs(logits: Tensor, *, temperature: float, top_k: int) -> Tensor:
    """Log-probs fp32 `[..., bins]` of softmax(logits / temperature).

    Args:
        top_k: only the that many likeliest tokens (those as likely as the last of them included);
            0 or less, or more than there are: all. The others have -inf.
    """
    scaled = logits.float() / temperature
    if 0 < top_k < scaled.shape[-1]:
        least = scaled.topk(top_k, dim=-1).values[..., -1:]
        scaled = scaled.masked_fill(scaled < least, -torch.inf)
    return torch.log_softmax(scaled, dim=-1)


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
