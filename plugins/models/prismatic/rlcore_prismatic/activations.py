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
    config: PrismaticModelConfig, resolved: Resolved, *, extra_tokens: int, causal: bool
) -> Activations:
    """Return the estimate, in bytes per sample.

    Args:
        extra_tokens: number of tokens that are read besides patches and prompt.
        causal: whether the attention mask has a row for each token.
    """
    size = resolved.size
    images = resolved.num_images
    slots = config.num_action_chunks * resolved.action_dim
    rank = config.lora_rank if config.is_lora else 0
    part = Part(BYTES[config.precision], trained=not config.is_lora, rank=rank)
    tokens = images * size.patches + resolved.prompt_length + extra_tokens
    blocks = [images * _block(part, tower, size) for tower in size.towers]
    layer = _layer(part, size, tokens)
    # features come from the second-to-last block, so the last one is not run
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


def decision_bytes(config: PrismaticModelConfig, resolved: Resolved) -> int:
    """Return the bytes of a stored decision, most of which are the prepared images."""
    size = resolved.size
    slots = config.num_action_chunks * resolved.action_dim
    images = resolved.num_images * 3 * size.image_size**2
    words = -(-size.action_bins // WORD) if config.top_k > 0 else 0
    return images + 8 * slots * (1 + words) + 9 * resolved.prompt_length


def _pixels(size: PrismaticSize, images: int) -> int:
    """Return the bytes of the pixels in fp32 while they are normalised.

    Each tower has its own copy, which exists before and after normalisation.
    """
    return 2 * FP32 * images * 3 * len(size.towers) * size.image_size**2


def _passing(part: Part, size: PrismaticSize, images: int, tokens: int) -> int:
    """Return the transient bytes of the largest MLP, in a tower or in the Llama.

    They are the residual stream, the input and the hidden numbers of the MLP; for the Llama also
    the embeddings that its callers hold.
    """
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
            # each convolution has a quarter of the pixels of the one before
            inputs = sum(count * pixels >> 2 * n for n, count in enumerate(channels))
            total += part.numbers(inputs)
    return total


def _block(part: Part, tower: TowerSize, size: PrismaticSize) -> int:
    """Return the bytes of one block of a tower for one image."""
    tokens = size.patches + tower.prefix
    width = tower.width
    scales = 2 * tokens * width * part.size if tower.layer_scale and part.trained else 0
    return scales + part.tower_block(tokens, width, tower.mlp)


def _projector(part: Part, size: PrismaticSize, tokens: int) -> int:
    """Return the bytes of the projector: the inputs of its layers and of the GELUs between them."""
    widths = projector_widths(size)
    inner = part.numbers(tokens * sum(widths[1:-1]))
    return inner + sum(part.inputs(tokens, before) for before, _ in pairwise(widths))


def _layer(part: Part, size: PrismaticSize, tokens: int) -> int:
    """Return the bytes of one layer of the Llama."""
    width = size.width
    keys = width // size.heads * size.kv_heads
    norm = part.rms_norm(tokens, width)
    return part.gated_layer(tokens, width, size.mlp, keys=tokens, widths=(width, keys), norm=norm)
