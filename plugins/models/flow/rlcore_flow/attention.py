"""Implement attention with rotary positions: of a VLM, and of an expert that attends to a VLM.

Legend: B rows, Q queries, K keys, N heads, G key heads, d head size, W width.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rlcore_flow.sizes import StackSize

ROPE_BASE = 10_000.0


class KeysValues(NamedTuple):
    """Keys (rotated) and values of one layer, `[B, G, K, d]` each. Read-only."""

    keys: Tensor
    values: Tensor

    def repeated(self, times: int) -> KeysValues:
        """Return those of `times` B rows: the B rows one after the other, `times` times."""
        return KeysValues(self.keys.repeat(times, 1, 1, 1), self.values.repeat(times, 1, 1, 1))


class AttentionMask(NamedTuple):
    """The keys that each query may attend to.

    openpi adds -2.38e38 to the scores of forbidden keys. In a query row without any allowed key
    (padding) this makes all scores equal, so the row attends to all keys equally. Here such rows
    have zero queries and all keys: the same result, without large numbers.

    Attributes:
        allowed: bool `[B, 1, Q, K]` (or broadcastable), no row empty.
        uniform: bool `[B, 1, Q, 1]`, rows that attend to all keys equally; None: no row does.
    """

    allowed: Tensor
    uniform: Tensor | None = None


class Rotation(NamedTuple):
    """Cosine and sine of the rotary embedding, `[B, 1, Q, d]` each."""

    cos: Tensor
    sin: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        """Rotate x `[B, N, Q, d]`: pairs (i, i + d/2) of its entries turn by the same angle."""
        turned: Tensor = _Turn.apply(x, self.cos, self.sin)
        return turned

    def repeated(self, times: int) -> Rotation:
        """Return that of `times` B rows: the B rows one after the other, `times` times."""
        return Rotation(self.cos.repeat(times, 1, 1, 1), self.sin.repeat(times, 1, 1, 1))


class _Turn(torch.autograd.Function):
    """The turn of a rotary embedding.

    Its gradient is the turn back, which takes half the time of torch's gradients of slices and
    concatenations on a CPU, and rounds in the same way.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        ctx.save_for_backward(cos, sin)
        return _turned(x, cos, sin)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        cos, sin = ctx.saved_tensors
        return _turned(gradient, cos, -sin), None, None


def _turned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Return (a cos - b sin, b cos + a sin) for x = (a, b)."""
    first, second = x.chunk(2, dim=-1)
    sin_first, sin_second = sin.chunk(2, dim=-1)
    turned = x * cos
    turned_first, turned_second = turned.chunk(2, dim=-1)
    turned_first -= second * sin_first
    turned_second += first * sin_second
    return turned


def rotation(positions: Tensor, head_dim: int, dtype: torch.dtype) -> Rotation:
    """Return the rotary embedding at integer positions `[B, Q]`, computed in fp32.

    It is not a buffer, because a network built on the meta device would lose it.
    """
    exponents = torch.arange(0, head_dim, 2, dtype=torch.float32, device=positions.device)
    angles = positions[:, None, :, None].float() * ROPE_BASE ** (-exponents / head_dim)
    angles = torch.cat([angles, angles], dim=-1)
    return Rotation(angles.cos().to(dtype), angles.sin().to(dtype))


class Attention(nn.Module):
    """Grouped-query attention over its own keys and, for an expert, the VLM's.

    Args:
        size: heads and width.
        keys_width: width of what keys and values are computed from; None: that of the tokens.
    """

    def __init__(self, size: StackSize, keys_width: int | None = None) -> None:
        super().__init__()
        self.head_dim = size.head_dim
        self.heads = size.heads
        queries = size.heads * size.head_dim
        keys = size.kv_heads * size.head_dim
        source = size.width if keys_width is None else keys_width
        self.q_proj = nn.Linear(size.width, queries, bias=False)
        self.k_proj = nn.Linear(source, keys, bias=False)
        self.v_proj = nn.Linear(source, keys, bias=False)
        self.o_proj = nn.Linear(queries, size.width, bias=False)

    def keys_values(self, x: Tensor, rotate: Rotation) -> KeysValues:
        """Return keys and values of x `[B, Q, W]`."""
        return KeysValues(rotate(self._heads(self.k_proj(x))), self._heads(self.v_proj(x)))

    def forward(
        self, x: Tensor, rotate: Rotation, mask: AttentionMask, past: KeysValues | None
    ) -> tuple[Tensor, KeysValues]:
        """Return output `[B, Q, W]`, attending to past and own keys, and x's keys and values."""
        queries = rotate(self._heads(self.q_proj(x)))
        if mask.uniform is not None:
            queries = queries.masked_fill(mask.uniform, 0.0)
        own = self.keys_values(x, rotate)
        attended = own if past is None else KeysValues(*map(_append, past, own))
        return self._attend(queries, attended, mask.allowed), own

    def _attend(self, queries: Tensor, attended: KeysValues, allowed: Tensor) -> Tensor:
        """Return the output `[B, Q, W]` of queries `[B, N, Q, d]` that attend to keys."""
        y = F.scaled_dot_product_attention(
            queries,
            self._for_all_heads(attended.keys),
            self._for_all_heads(attended.values),
            attn_mask=allowed,
        )
        return self.o_proj(y.transpose(1, 2).flatten(2))

    def _heads(self, x: Tensor) -> Tensor:
        """Split heads: `[B, Q, N*d]` -> `[B, N, Q, d]`."""
        return x.unflatten(-1, (-1, self.head_dim)).transpose(1, 2)

    def _for_all_heads(self, x: Tensor) -> Tensor:
        """Repeat keys for the heads that share them: `[B, G, K, d]` -> `[B, N, K, d]`.

        Nothing is copied for G = 1 or N.
        """
        rows, groups, keys, _ = x.shape
        shared = x[:, :, None].expand(rows, groups, self.heads // groups, keys, self.head_dim)
        return shared.flatten(1, 2)


class CrossAttention(Attention):
    """Attention of an expert to the VLM's keys and values alone, each mapped once more.

    The maps do not depend on the expert's tokens, so :meth:`mapped` applies them once for all
    denoising steps.

    Args:
        size: heads and width of the expert.
        keys_width: numbers per token of the VLM's keys of all heads; also of its values.
    """

    def mapped(self, past: KeysValues) -> KeysValues:
        """Return the keys and values to attend to, for those of the VLM's layer."""
        keys = self.k_proj(past.keys.transpose(1, 2).flatten(2))
        values = self.v_proj(past.values.transpose(1, 2).flatten(2))
        return KeysValues(self._heads(keys), self._heads(values))

    def forward(
        self, x: Tensor, rotate: Rotation, mask: AttentionMask, past: KeysValues | None
    ) -> tuple[Tensor, KeysValues]:
        """Return output `[B, Q, W]` for x `[B, Q, W]`, and the keys and values attended to.

        Args:
            x: the expert's tokens.
            rotate: rotary embedding of x's positions, which here begin at 0.
            mask: as for :meth:`Attention.forward`; only its columns of the past are used.
            past: result of :meth:`mapped`.
        """
        assert past is not None, "cross-attention attends to nothing else"
        queries = rotate(self._heads(self.q_proj(x)))
        return self._attend(queries, past, mask.allowed[..., : past.keys.shape[2]]), past


def _append(past: Tensor, own: Tensor) -> Tensor:
    return torch.cat([past, own], dim=2)
