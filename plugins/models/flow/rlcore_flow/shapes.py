"""Define names and shapes of the weights of towers and stacks of layers. No tensor library."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

from rlcore_flow.sizes import StackSize, TowerSize, conv_channels, patches

Shapes = Iterator[tuple[str, tuple[int, ...]]]


def linear_shapes(name: str, inputs: int, outputs: int) -> Shapes:
    """Yield the shapes of a linear map with a bias."""
    yield f"{name}.weight", (outputs, inputs)
    yield f"{name}.bias", (outputs,)


def stack_shapes(
    size: StackSize,
    name: str,
    *,
    adaptive: bool = False,
    keys_width: Callable[[int], int] | None = None,
) -> Shapes:
    """Yield the shapes of a stack of transformer layers.

    Args:
        size: of the stack.
        name: prefix of the names.
        adaptive: whether norms map a condition to scale, shift and gate.
        keys_width: width of what a layer's keys are computed from, by its number; None: that of
            the tokens.
    """
    queries = size.heads * size.head_dim
    keys = size.kv_heads * size.head_dim
    for number in range(size.depth):
        layer = f"{name}.layers.{number}"
        source = size.width if keys_width is None else keys_width(number)
        yield f"{layer}.self_attn.q_proj.weight", (queries, size.width)
        yield f"{layer}.self_attn.k_proj.weight", (keys, source)
        yield f"{layer}.self_attn.v_proj.weight", (keys, source)
        yield f"{layer}.self_attn.o_proj.weight", (size.width, queries)
        yield f"{layer}.mlp.gate_proj.weight", (size.mlp, size.width)
        yield f"{layer}.mlp.up_proj.weight", (size.mlp, size.width)
        yield f"{layer}.mlp.down_proj.weight", (size.width, size.mlp)
        yield from _norm(f"{layer}.input_layernorm", size.width, adaptive)
        yield from _norm(f"{layer}.post_attention_layernorm", size.width, adaptive)
    yield from _norm(f"{name}.norm", size.width, adaptive)


def tower_shapes(size: TowerSize, name: str) -> Shapes:
    """Yield the shapes of a vision tower.

    Args:
        size: of the tower.
        name: prefix of the names.
    """
    width = size.vision_width
    if size.vision == "conv":
        for number, (a, b) in enumerate(pairwise(conv_channels(size))):
            yield f"{name}.convs.{number}.weight", (b, a, 3, 3)
            yield f"{name}.convs.{number}.bias", (b,)
        yield f"{name}.position_embedding.weight", (patches(size), width)
        yield from _scale_and_shift(f"{name}.norm", width)
        return
    tower = f"{name}.vision_model"
    yield f"{tower}.embeddings.patch_embedding.weight", (width, 3, *[size.patch_size] * 2)
    yield f"{tower}.embeddings.patch_embedding.bias", (width,)
    yield f"{tower}.embeddings.position_embedding.weight", (patches(size), width)
    for layer in (f"{tower}.encoder.layers.{number}" for number in range(size.vision_depth)):
        yield from _scale_and_shift(f"{layer}.layer_norm1", width)
        for projection in ("q_proj", "k_proj", "v_proj", "out_proj"):
            yield from linear_shapes(f"{layer}.self_attn.{projection}", width, width)
        yield from _scale_and_shift(f"{layer}.layer_norm2", width)
        yield from linear_shapes(f"{layer}.mlp.fc1", width, size.vision_mlp)
        yield from linear_shapes(f"{layer}.mlp.fc2", size.vision_mlp, width)
    yield from _scale_and_shift(f"{tower}.post_layernorm", width)


def _scale_and_shift(name: str, width: int) -> Shapes:
    yield f"{name}.weight", (width,)
    yield f"{name}.bias", (width,)


def _norm(name: str, width: int, adaptive: bool) -> Shapes:
    if adaptive:
        yield from linear_shapes(f"{name}.dense", width, 3 * width)
    else:
        yield f"{name}.weight", (width,)
