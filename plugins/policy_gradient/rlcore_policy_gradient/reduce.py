"""Reduce tensors to a granularity, and compute the weight of each element in the loss.

An element is one entry at the granularity of a log-prob (or entropy, or value). Elementwise
tensors `[..., C, A]` are reduced to `[..., C, A]` (token_level), `[..., C, 1]` (action_level)
or `[..., 1, 1]` (chunk_level), so that all of them broadcast against each other.

The weights are computed once for the whole batch, so that the order of the samples and their
division among micro-batches and ranks do not change the loss. Invalid elements have weight 0.
"""

from __future__ import annotations

import torch
from torch import Tensor


def at_level(x: Tensor, valid: Tensor, level: str) -> Tensor:
    """Sum an elementwise tensor up to `level` over executed actions.

    Actions after the end of an episode were never executed and did not affect the outcome, so they
    are left out of the sums. (RLinf sums over the whole chunk.)

    Args:
        x: `[..., C, A]`.
        valid: bool `[..., C]`.
        level: "token_level", "action_level" or "chunk_level".

    Returns:
        `[..., C, A]`, `[..., C, 1]` or `[..., 1, 1]`.
    """
    masked = torch.where(valid.unsqueeze(-1), x, 0.0)
    if level == "token_level":
        return masked
    if level == "action_level":
        return masked.sum(-1, keepdim=True)
    return masked.sum((-2, -1), keepdim=True)


def entropy_at_level(entropy: Tensor, valid: Tensor, level: str) -> Tensor:
    """Return the entropy at `level`: elementwise entries are summed, one entry per chunk is kept.

    A policy that gives one entry per chunk has already reduced its entropy (to a mean, say).
    Expanding it to C x A entries and summing them would count it C x A times.

    Args:
        entropy: `[..., C, A]`, or `[..., 1, 1]`.
        valid: bool `[..., C]`.
        level: as for :func:`at_level`.

    Returns:
        The shape of :func:`at_level`; an entry per chunk stays `[..., 1, 1]` at every level and
        broadcasts to all elements of its chunk. Invalid elements are 0.
    """
    if entropy.shape[-2:] == (1, 1):
        return torch.where(valid.any(-1)[..., None, None], entropy, 0.0)
    return at_level(entropy, valid, level)


def valid_at_level(valid: Tensor, entries: int, level: str) -> Tensor:
    """Return which elements at `level` are valid: bool `[..., C, A]`, `[..., C, 1]` or
    `[..., 1, 1]`.

    A chunk is valid if any of its actions is.
    """
    if level == "token_level":
        return valid.unsqueeze(-1).expand(*valid.shape, entries)
    if level == "action_level":
        return valid.unsqueeze(-1)
    return valid.any(-1)[..., None, None]


def batch_weights(valid: Tensor, episode: Tensor, aggregation: str) -> Tensor:
    """Return the weight of each element of a batch. The loss is `sum(weight * element loss)`.

        token-mean            1 / (valid elements of the batch)
        seq-mean-token-sum    1 / (episodes with a valid element)            = 1 / I
        seq-mean-token-mean   1 / (I * valid elements of the same episode)   = 1 / (I L_i)

    Args:
        valid: bool `[T, N, E, F]`, valid elements.
        episode: int64 `[T, N]`, number of the episode within its column, from 0.
        aggregation: one of the names above.

    Returns:
        float32 `[T, N, E, F]`, 0 where invalid; all 0 if nothing is valid.
    """
    counts = valid.sum((-2, -1))  # [T, N]
    if aggregation == "token-mean":
        scale = counts.sum().clamp(min=1).double().reciprocal().expand_as(counts)
    else:
        # a unique index for each (column, episode)
        column = torch.arange(valid.shape[1], device=valid.device).expand_as(episode)
        sequence = column * (int(episode.max()) + 1) + episode if episode.numel() else episode
        lengths = torch.zeros(
            int(sequence.max()) + 1 if sequence.numel() else 0,
            dtype=torch.float64,
            device=valid.device,
        ).index_add_(0, sequence.flatten(), counts.flatten().double())
        sequences = (lengths > 0).sum().clamp(min=1).double()
        if aggregation == "seq-mean-token-sum":
            scale = sequences.reciprocal().expand_as(counts)
        else:
            scale = (sequences * lengths.clamp(min=1)).reciprocal()[sequence]
    return torch.where(valid, scale[..., None, None], 0.0).float()
