"""Define names and shapes of the weights in OpenVLA's checkpoints. No tensor library.

Vision towers have timm's names, except for LayerScale's factor, which OpenVLA renames. The Llama
has transformers' names. With FiLM both towers are one level deeper, inside their wrapper.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise

from rlcore_prismatic.sizes import PrismaticSize, TowerSize

VALUE_HEAD = "value_head"
TOWERS = ("featurizer", "fused_featurizer")

# Last parts of the names of modules that get low-rank adapters, as in the reference.
LORA_TARGETS = (
    "proj",
    "qkv",
    "fc1",
    "fc2",
    "q",
    "kv",
    "fc3",
    "out_proj",
    "q_proj",
    "k_proj",
    "v_proj",
    "o_proj",
    "gate_proj",
    "up_proj",
    "down_proj",
    "lm_head",
)

FILM = ("scale", "shift")
"""Modules of a block that FiLM adds."""

Shape = tuple[int, ...]
Shapes = Iterator[tuple[str, Shape]]


def network_shapes(size: PrismaticSize, *, film: bool = False) -> dict[str, Shape]:
    """Return the shapes of all parameters of the network, without heads and adapters."""
    prefix = "vision_backbone.vision_backbone" if film else "vision_backbone"
    towers = zip(TOWERS, size.towers, strict=False)
    return dict(
        [
            *(
                item
                for name, tower in towers
                for item in _tower(f"{prefix}.{name}", size, tower, film=film)
            ),
            *_projector(size),
            *_llama("language_model", size),
        ]
    )


def value_head_shapes(inputs: int, hidden: tuple[int, ...], outputs: int) -> dict[str, Shape]:
    """Return the shapes of the critic's parameters; its last layer has no bias."""
    *inner, last = enumerate(pairwise([inputs, *hidden, outputs]))
    shapes = dict(item for n, (a, b) in inner for item in linear(f"{VALUE_HEAD}.mlp.{2 * n}", a, b))
    number, (a, b) = last
    return {**shapes, f"{VALUE_HEAD}.mlp.{2 * number}.weight": (b, a)}


def adapter_shapes(weights: Mapping[str, Shape], rank: int) -> dict[str, Shape]:
    """Return the shapes of adapters of this rank, by their names.

    A module NAME is adapted by `NAME.lora_A.weight` and `NAME.lora_B.weight`.

    Args:
        weights: shapes of a network.
    """
    shapes: dict[str, Shape] = {}
    for name, shape in weights.items():
        module, _, kind = name.rpartition(".")
        if kind == "weight" and module.rpartition(".")[2] in LORA_TARGETS:
            shapes |= low_rank_shapes(module, shape, rank)
    return shapes


def low_rank_shapes(module: str, shape: Shape, rank: int) -> dict[str, Shape]:
    """Return the shapes of the adapter of one module, whose weight has this shape."""
    outputs, inputs, *kernel = shape
    return {
        f"{module}.lora_A.weight": (rank, inputs, *kernel),
        f"{module}.lora_B.weight": (outputs, rank, *(1 for _ in kernel)),
    }


def is_unused(name: str, size: PrismaticSize) -> bool:
    """Return whether a weight (or its adapter) has no effect on the network's output.

    Features come from each tower's second-to-last block, so its last block, norm and pool are not
    used.
    """
    for tower, tower_size in zip(TOWERS, size.towers, strict=False):
        _, separator, rest = name.partition(f"vision_backbone.{tower}.")
        if separator:
            return rest.startswith(("norm.", "attn_pool.", f"blocks.{tower_size.depth - 1}."))
    return False


def is_film(name: str) -> bool:
    """Return whether a weight of the network is one of FiLM's.

    The network's own files don't hold it; with adapters it is fully trained.
    """
    _, separator, rest = name.partition("vision_backbone.vision_backbone.")
    return bool(separator) and rest.split(".")[-2] in FILM


def linear(name: str, inputs: int, outputs: int) -> Shapes:
    """Yield the shapes of a linear map with a bias."""
    yield f"{name}.weight", (outputs, inputs)
    yield f"{name}.bias", (outputs,)


def norm(name: str, width: int) -> Shapes:
    """Yield the shapes of a LayerNorm."""
    yield f"{name}.weight", (width,)
    yield f"{name}.bias", (width,)


def _tower(name: str, size: PrismaticSize, tower: TowerSize, *, film: bool) -> Shapes:
    width = tower.width
    if tower.class_token:
        yield f"{name}.cls_token", (1, 1, width)
    if tower.registers:
        yield f"{name}.reg_token", (1, tower.registers, width)
    yield f"{name}.pos_embed", (1, size.patches, width)
    if tower.convs:
        for number, (a, b) in enumerate(pairwise(conv_channels(tower))):
            yield f"{name}.patch_embed.convs.{number}.weight", (b, a, 3, 3)
            yield f"{name}.patch_embed.convs.{number}.bias", (b,)
    else:
        yield f"{name}.patch_embed.proj.weight", (width, 3, size.patch_size, size.patch_size)
        yield f"{name}.patch_embed.proj.bias", (width,)
    for number in range(tower.depth):
        block = f"{name}.blocks.{number}"
        if film:
            yield from linear(f"{block}.scale", size.width, width)
            yield from linear(f"{block}.shift", size.width, width)
            block = f"{block}.block"
        yield from norm(f"{block}.norm1", width)
        yield from linear(f"{block}.attn.qkv", width, 3 * width)
        yield from linear(f"{block}.attn.proj", width, width)
        yield from norm(f"{block}.norm2", width)
        yield from linear(f"{block}.mlp.fc1", width, tower.mlp)
        yield from linear(f"{block}.mlp.fc2", tower.mlp, width)
        if tower.layer_scale:
            yield f"{block}.ls1.scale_factor", (width,)
            yield f"{block}.ls2.scale_factor", (width,)
    yield from norm(f"{name}.norm", width)
    if tower.pooling:
        pool = f"{name}.attn_pool"
        yield f"{pool}.latent", (1, 1, width)
        yield from linear(f"{pool}.q", width, width)
        yield from linear(f"{pool}.kv", width, 2 * width)
        yield from linear(f"{pool}.proj", width, width)
        yield from norm(f"{pool}.norm", width)
        yield from linear(f"{pool}.mlp.fc1", width, tower.mlp)
        yield from linear(f"{pool}.mlp.fc2", tower.mlp, width)


def conv_channels(tower: TowerSize) -> tuple[int, ...]:
    """Return the channels of the convolutions that embed patches: 3, then doubling to the width."""
    return (3, *(tower.width >> i for i in reversed(range(tower.convs))))


def projector_widths(size: PrismaticSize) -> tuple[int, ...]:
    """Return the widths from a patch's features to the Llama.

    The projector has three layers for two towers, two for one.
    """
    inner = (4 * size.vision_width,) if len(size.towers) == 2 else ()
    return (size.vision_width, *inner, size.width, size.width)


def _projector(size: PrismaticSize) -> Shapes:
    for number, (a, b) in enumerate(pairwise(projector_widths(size)), start=1):
        yield from linear(f"projector.fc{number}", a, b)


def _llama(name: str, size: PrismaticSize) -> Shapes:
    width = size.width
    keys = width // size.heads * size.kv_heads
    yield f"{name}.model.embed_tokens.weight", (size.rows, width)
    for layer in (f"{name}.model.layers.{number}" for number in range(size.depth)):
        yield f"{layer}.self_attn.q_proj.weight", (width, width)
        yield f"{layer}.self_attn.k_proj.weight", (keys, width)
        yield f"{layer}.self_attn.v_proj.weight", (keys, width)
        yield f"{layer}.self_attn.o_proj.weight", (width, width)
        yield f"{layer}.mlp.gate_proj.weight", (size.mlp, width)
        yield f"{layer}.mlp.up_proj.weight", (size.mlp, width)
        yield f"{layer}.mlp.down_proj.weight", (width, size.mlp)
        yield f"{layer}.input_layernorm.weight", (width,)
        yield f"{layer}.post_attention_layernorm.weight", (width,)
    yield f"{name}.model.norm.weight", (width,)
    yield f"{name}.lm_head.weight", (size.rows, width)
