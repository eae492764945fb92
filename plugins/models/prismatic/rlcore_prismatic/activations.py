"""Estimate the activation memory of the network from its shapes. No torch."""

from __future__ import annotations

from itertools import pairwise

from rlcore_weights.activations import BYTES, FP32, Part

from rlcore.contracts.specs import Activations
from rlcore_prismatic.layout import conv_channels, projector_widths
from rlcore_prismatic.resolved import Resolved
from rlcore_prismatic.settings import WORD, PrismaticModelConfig
from rlcore_prismatic.sizes import PrismaticSize, TowerSize

LIBRARIES = 80 * 2**20
"""Main memory of transformers, once its Llama is imported."""
_SCORES = 3 * FP32 + 1  # bytes of a bin: its log-prob, probability and masked log-prob, and a mask


def activations(
    config: PrismaticModelConfig, resolved: Resolved, *, behind: int, causal: bool
) -> Activations:
    """Bytes per sample.

    Args:
        behind: tokens that are read besides patches and prompt.
        causal: whether each token has a mask of its own.
    """
    size, images = resolved.size, resolved.num_images
    slots = config.num_action_chunks * resolved.action_dim
    rank = config.lora_rank if config.is_lora else 0
    part = Part(BYTES[config.precision], trained=not config.is_lora, rank=rank)
    tokens = images * size.patches + resolved.prompt_length + behind
    blocks = [images * _block(part, tower, size) for tower in size.towers]
    layer = _layer(part, size, tokens)
    # a tower's last block is not used
    depths = [tower.depth - 1 for tower in size.towers]
    ends = images * _patches(part, size) + _projector(part, size, images * size.patches)
    ends += part.rms_norm(tokens, size.width) + part.inputs(slots, size.width)
    ends += slots * size.action_bins * _SCORES
    ends += part.numbers(tokens**2 if causal else tokens)
    pairs = list(zip(size.towers, depths, strict=True))
    between = sum(
        part.numbers(images * depth * (size.patches + tower.prefix) * tower.width)
        for tower, depth in pairs
    )
    between += part.numbers(size.depth * tokens * size.width)
    return Activations(
        stored=ends
        + size.depth * layer
        + sum(depth * block for depth, block in zip(depths, blocks, strict=True)),
        recomputed=ends + between + max([layer, *blocks]),
        transient=max(_pixels(size, images), _passing(part, size, images, tokens)),
    )


def stored(config: PrismaticModelConfig, resolved: Resolved) -> int:
    """Bytes of a stored decision, most of it images as they are prepared."""
    size, slots = resolved.size, config.num_action_chunks * resolved.action_dim
    images = resolved.num_images * 3 * size.image_size**2
    words = -(-size.action_bins // WORD) if config.top_k > 0 else 0
    return images + 8 * slots * (1 + words) + 9 * resolved.prompt_length


def _pixels(size: PrismaticSize, images: int) -> int:
    """Colours in fp32 for each tower, while they are normalised: as they were, and as they will
    be."""
    return 2 * FP32 * images * 3 * len(size.towers) * size.image_size**2


def _passing(part: Part, size: PrismaticSize, images: int, tokens: int) -> int:
    """The larger of a tower's MLP and the Llama's: what goes around it, goes in, and is inside; the
    Llama's callers hold its embeddings too."""
    towers = [
        images * (size.patches + tower.prefix) * (3 * tower.width + 2 * tower.mlp)
        for tower in size.towers
    ]
    return part.numbers(max([tokens * (6 * size.width + 3 * size.mlp), *towers]))


def _patches(part: Part, size: PrismaticSize) -> int:
    """Return the bytes of embedding one image's patches in all towers."""
    pixels = size.image_size**2
    total = 0
    for tower in size.towers:
        if not tower.convs:
            total += part.inputs(1, 3 * pixels)
        elif part.trained:
            channels = conv_channels(tower)[:-1]
            total += part.numbers(sum(c * pixels >> 2 * n for n, c in enumerate(channels)))
    return total


def _block(part: Part, tower: TowerSize, size: PrismaticSize) -> int:
    """Return the bytes of one block of a tower for one image."""
    tokens, width = size.patches + tower.prefix, tower.width
    scales = 2 * tokens * width * part.size if tower.layer_scale and part.trained else 0
    return scales + part.tower_block(tokens, width, tower.mlp)


def _projector(part: Part, size: PrismaticSize, tokens: int) -> int:
    """Of inputs and, between the layers, what GELU reads."""
    widths = projector_widths(size)
    inner = part.numbers(tokens * sum(widths[1:-1]))
    return inner + sum(part.inputs(tokens, before) for before, _ in pairwise(widths))


def _layer(part: Part, size: PrismaticSize, tokens: int) -> int:
    """Return the bytes of one layer of the Llama."""
    width, keys = size.width, size.width // size.heads * size.kv_heads
    norm = part.rms_norm(tokens, width)
    return part.gated_layer(tokens, width, size.mlp, keys=tokens, widths=(width, keys), norm=norm)
