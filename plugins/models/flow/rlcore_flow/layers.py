"""Implement the transformer layers of VLMs and action experts: those of Gemma, π0.5 and Llama.

transformers' own layers are not used: an expert attends to the VLM's keys and values layer by
layer, π0.5's norms take the time, and importing them costs every worker process more than 4
seconds. transformers is imported only for SigLIP, if the size has it.

Legend: B rows, Q queries, K keys, N heads, G key heads, d head size, W width.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from rlcore_flow.sizes import StackSize

RMS_EPS = 1e-6
LLAMA_EPS = 1e-5
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


class RMSNorm(nn.Module):
    """An RMS norm without a gate: y = x / rms(x) * (1 + w), in fp32."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor, condition: Tensor | None) -> tuple[Tensor, None]:
        y = F.rms_norm(x.float(), x.shape[-1:], 1.0 + self.weight.float(), RMS_EPS)
        return y.to(x.dtype), None


class AdaRMSNorm(nn.Module):
    """π0.5's adaptive RMS norm: y = x / rms(x) * (1 + scale) + shift, in fp32.

    Scale, shift and gate are dense(time). At first it is the plain norm with a closed gate (dense
    is zero), as in openpi.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.dense = nn.Linear(width, 3 * width)
        nn.init.zeros_(self.dense.weight)
        nn.init.zeros_(self.dense.bias)

    def forward(self, x: Tensor, condition: Tensor) -> tuple[Tensor, Tensor]:
        """Return the normed x `[B, Q, W]` and the gate `[B, 1, W]` for a condition `[B, W]`."""
        scale, shift, gate = self.dense(condition)[:, None].chunk(3, dim=-1)
        y = F.rms_norm(x.float(), x.shape[-1:], None, RMS_EPS)
        return (y * (1.0 + scale.float()) + shift.float()).to(x.dtype), gate.to(x.dtype)


class LlamaRMSNorm(nn.Module):
    """An RMS norm of Llama without a gate: y = x / rms(x) * w, in fp32."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor, condition: Tensor | None) -> tuple[Tensor, None]:
        y = F.rms_norm(x.float(), x.shape[-1:], self.weight.float(), LLAMA_EPS)
        return y.to(x.dtype), None


@dataclass(frozen=True)
class Style:
    """What differs between the layers of language models.

    Attributes:
        norm: makes a norm of a width; it takes tokens and a condition, and returns the normed
            tokens and the gate of the residual sum, or None.
        activation: of the gated MLP.
    """

    norm: Callable[[int], nn.Module]
    activation: Callable[[Tensor], Tensor]


_gelu = partial(F.gelu, approximate="tanh")
GEMMA = Style(RMSNorm, _gelu)
ADAPTIVE_GEMMA = Style(AdaRMSNorm, _gelu)
LLAMA = Style(LlamaRMSNorm, F.silu)


class MLP(nn.Module):
    """A gated MLP: y = down(activation(gate(x)) * up(x))."""

    def __init__(self, width: int, hidden: int, activation: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.activation = activation
        self.gate_proj = nn.Linear(width, hidden, bias=False)
        self.up_proj = nn.Linear(width, hidden, bias=False)
        self.down_proj = nn.Linear(hidden, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Map `[..., W]` to `[..., W]`."""
        return self.down_proj(self.activation(self.gate_proj(x)) * self.up_proj(x))


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


def _add(x: Tensor, y: Tensor, gate: Tensor | None) -> Tensor:
    """Return the residual sum, which is gated in π0.5."""
    return x + y if gate is None else x + y * gate


class TransformerLayer(nn.Module):
    """A layer: x + attention(norm(x)), then x + mlp(norm(x)), both gated in π0.5."""

    def __init__(self, size: StackSize, style: Style, attention: Attention) -> None:
        super().__init__()
        self.self_attn = attention
        self.mlp = MLP(size.width, size.mlp, style.activation)
        self.input_layernorm = style.norm(size.width)
        self.post_attention_layernorm = style.norm(size.width)

    def forward(
        self,
        x: Tensor,
        rotate: Rotation,
        mask: AttentionMask,
        past: KeysValues | None,
        condition: Tensor | None,
        *,
        keys_only: bool = False,
    ) -> tuple[Tensor, KeysValues]:
        """Return x `[B, Q, W]` after the layer, and the layer's keys and values of x.

        Args:
            x: `[B, Q, W]`.
            rotate: rotary embedding of x's positions.
            mask: keys that each query may attend to, past ones first.
            past: the VLM's keys and values, for the expert; None: attend to x alone.
            condition: `[B, W]`, for adaptive norms.
            keys_only: compute only keys and values, and return x unchanged.
        """
        normed, gate = self.input_layernorm(x, condition)
        if keys_only:
            return x, self.self_attn.keys_values(normed, rotate)
        y, own = self.self_attn(normed, rotate, mask, past)
        x = _add(x, y, gate)
        normed, gate = self.post_attention_layernorm(x, condition)
        return _add(x, self.mlp(normed), gate), own


class TransformerStack(nn.Module):
    """A stack of layers; `checkpointing` recomputes activations in the backward pass.

    Args:
        size: depth, attention and widths.
        style: norms and activations.
        attention: makes the attention of a layer of the given number; None: over own keys.
    """

    def __init__(
        self,
        size: StackSize,
        style: Style,
        attention: Callable[[int], Attention] | None = None,
    ) -> None:
        super().__init__()
        self.head_dim = size.head_dim
        self.checkpointing = False
        self.layers = nn.ModuleList(
            TransformerLayer(
                size, style, Attention(size) if attention is None else attention(number)
            )
            for number in range(size.depth)
        )
        self.norm = style.norm(size.width)

    @property
    def stack(self) -> Sequence[TransformerLayer]:
        """`layers`, typed: ModuleList does not know the type of its modules."""
        return cast(Sequence[TransformerLayer], self.layers)

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the projections, in which the stack computes; norms may be in fp32."""
        return self.stack[0].self_attn.q_proj.weight.dtype

    def rotation(self, positions: Tensor) -> Rotation:
        """Return the rotary embedding at integer positions `[B, Q]`, in the stack's dtype."""
        return rotation(positions, self.head_dim, self.dtype)

    def encode(
        self, x: Tensor, positions: Tensor, mask: AttentionMask, *, need_output: bool
    ) -> tuple[list[KeysValues], Tensor | None]:
        """Return keys and values of all layers for x `[B, Q, W]`, and the normed output if needed.

        If the output is not needed, the last layer computes only its keys and values.
        """
        x = x.to(self.dtype)
        rotate = self.rotation(positions)
        cache = []
        for layer in self.stack if need_output else self.stack[:-1]:
            x, own = self._run(layer, x, rotate, mask, None, None)
            cache.append(own)
        if need_output:
            return cache, self.norm(x, None)[0]
        _, own = self.stack[-1](x, rotate, mask, None, None, keys_only=True)
        cache.append(own)
        return cache, None

    def extend(
        self,
        x: Tensor,
        rotate: Rotation,
        mask: AttentionMask,
        past: list[KeysValues],
        condition: Tensor | None,
        *,
        cross_rotate: Rotation | None = None,
    ) -> Tensor:
        """Return the normed output `[B, Q, W]` for x, which also attends to the tokens of `past`.

        `past` is not changed.

        Args:
            x, rotate, mask, condition: as for :meth:`TransformerLayer.forward`.
            past: keys and values of each layer, for cross-attention those it mapped.
            cross_rotate: rotary embedding of x's positions in layers of cross-attention.
        """
        x = x.to(self.dtype)
        for layer, before in zip(self.stack, past, strict=True):
            crosses = isinstance(layer.self_attn, CrossAttention)
            turn = cross_rotate if crosses else rotate
            x, _ = self._run(layer, x, turn, mask, before, condition)
        return self.norm(x, condition)[0]

    def _run(self, layer: TransformerLayer, *inputs: object) -> tuple[Tensor, KeysValues]:
        if self.checkpointing and torch.is_grad_enabled():
            return checkpoint(layer, *inputs, use_reentrant=False)
        return layer(*inputs)


class LanguageModel(TransformerStack):
    """A stack of layers with its token embedding, whose output is multiplied by sqrt(width)."""

    def __init__(self, size: StackSize, style: Style, vocab: int) -> None:
        super().__init__(size, style)
        self.embed_tokens = nn.Embedding(vocab, size.width)
        # with this std the scaled embeddings have unit variance
        nn.init.normal_(self.embed_tokens.weight, std=size.width**-0.5)

    def embed(self, tokens: Tensor) -> Tensor:
        """Embed token ids `[B, L]`: `[B, L, W]`, scaled by sqrt(W)."""
        return self.embed_tokens(tokens) * self.embed_tokens.embedding_dim**0.5
