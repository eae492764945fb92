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
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from rlcore_flow.attention import (
    Attention,
    AttentionMask,
    CrossAttention,
    KeysValues,
    Rotation,
    rotation,
)
from rlcore_flow.sizes import StackSize

RMS_EPS = 1e-6
LLAMA_EPS = 1e-5


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
            keys_only: compute only keys and values, and return x unchanged; with cross-attention
                they are those that it maps from `past`, and only these two are used.
        """
        if keys_only and isinstance(self.self_attn, CrossAttention):
            assert past is not None
            return x, self.self_attn.mapped(past)
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

    def mapped(
        self, past: list[KeysValues], rotate: Rotation, mask: AttentionMask
    ) -> list[KeysValues]:
        """Return what :meth:`extend` needs: in layers of cross-attention, the mapped `past`.

        Layers are called, not their attention, because a call gathers the weights of a layer whose
        parameters are sharded.

        Args:
            past: keys and values of each layer of the VLM.
            rotate, mask: as for :meth:`extend`.
        """
        return [
            layer(before.keys, rotate, mask, before, None, keys_only=True)[1]
            if isinstance(layer.self_attn, CrossAttention)
            else before
            for layer, before in zip(self.stack, past, strict=True)
        ]

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
            past: keys and values of each layer, with cross-attention the result of :meth:`mapped`.
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
