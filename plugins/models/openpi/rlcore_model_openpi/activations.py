"""Estimate the activation memory of the network from its shapes. No torch."""

from __future__ import annotations

from rlcore_flow.settings import reads_vlm
from rlcore_flow.sizes import conv_channels
from rlcore_weights.activations import BYTES, FP32, Part

from rlcore.contracts.specs import Activations
from rlcore_model_openpi.resolved import Resolved, masked_images
from rlcore_model_openpi.settings import OpenPIModelConfig
from rlcore_model_openpi.sizes import NetworkSize

LIBRARIES = 80 * 2**20
"""Host memory in bytes that importing transformers' SigLIP takes."""
_DENSITY = 6  # fp32 numbers per action entry: its point, mean, std, and intermediates of a log-prob


def activations(config: OpenPIModelConfig, resolved: Resolved) -> Activations:
    """Return the estimate, in bytes per sample."""
    size = resolved.size
    number = BYTES[config.precision]
    rank = config.lora_rank if config.is_lora else 0
    vlm = Part(number, trained=not (rank or config.openpi.train_expert_only), rank=rank)
    expert = Part(number)
    images = resolved.num_images + masked_images(config, resolved)
    prefix = images * size.image_tokens + size.max_token_len
    # without such a critic the last layer computes only keys and values
    layers = size.depth - (0 if reads_vlm(config.openpi, resolved.values) else 1)
    steps = config.openpi.num_steps if config.openpi.joint_logprob else 1
    pixels = FP32 * images * 3 * size.image_size**2
    tower = images * vlm.tower_block(size.image_tokens, size.vision_width, size.vision_mlp, maps=3)
    layer = _gemma_layer(vlm, size, prefix, prefix, size.vlm_width, size.vlm_mlp)
    expert_layer = _gemma_layer(
        expert,
        size,
        size.suffix_len,
        prefix + size.suffix_len,
        size.expert_width,
        size.expert_mlp,
        adaptive=size.pi05,
    )
    depth = size.vision_depth if size.vision == "siglip" else 0
    first = images * _image_ends(vlm, size) + vlm.rms_norm(prefix, size.vlm_width, FP32)
    first += vlm.inputs(prefix, size.vlm_width, 2)
    if not vlm.passes_gradients:
        first = tower = layer = 0
    last = steps * _suffix_ends(expert, size)
    width = 2 * size.kv_heads * size.head_dim  # of keys and values together
    # checkpointing stores the input of each layer, and the keys and values that it reads
    boundaries = size.depth * (prefix * width + steps * size.suffix_len * size.expert_width)
    if vlm.passes_gradients:
        boundaries += layers * prefix * size.vlm_width
        boundaries += depth * images * size.image_tokens * size.vision_width
    inside = max(
        images * size.image_tokens * (3 * size.vision_width + 2 * size.vision_mlp),
        prefix * (3 * size.vlm_width + 3 * size.vlm_mlp),
    )
    return Activations(
        stored=first + depth * tower + layers * layer + steps * size.depth * expert_layer + last,
        recomputed=first + expert.numbers(boundaries) + max(tower, layer, expert_layer) + last,
        transient=pixels + max(pixels, expert.numbers(inside)),
    )


def _gemma_layer(
    part: Part,
    size: NetworkSize,
    tokens: int,
    keys: int,
    width: int,
    mlp: int,
    *,
    adaptive: bool = False,
) -> int:
    """Return the bytes of one Gemma layer, including its attention mask.

    Args:
        tokens: number of queries.
        keys: number of keys that each query attends to.
        adaptive: whether both residual sums have a gate.
    """
    gates = part.numbers(2 * tokens * width) if adaptive else 0
    layer = part.gated_layer(
        tokens,
        width,
        mlp,
        keys=keys,
        widths=(size.heads * size.head_dim, size.kv_heads * size.head_dim),
        norm=part.rms_norm(tokens, width, FP32),  # computed in fp32
    )
    return layer + part.numbers(tokens * keys) + gates


def _image_ends(part: Part, size: NetworkSize) -> int:
    """Return the bytes of one image before and after the tower's layers.

    These are the patch embedding, the tower's last norm and the projector.
    """
    if not part.trained:  # neither has adapters
        return part.numbers(size.image_tokens * size.vision_width)
    pixels = size.image_size**2
    last = part.numbers(2 * size.image_tokens * size.vision_width)  # inputs of norm and projector
    if size.vision == "siglip":
        return FP32 * 3 * pixels + last
    # the input of each convolution, and the output of the last one
    channels = conv_channels(size)
    inputs = sum(count * pixels >> 2 * n for n, count in enumerate(channels))
    return last + part.numbers(inputs)


def _suffix_ends(part: Part, size: NetworkSize) -> int:
    """Return the bytes of the expert's last norm and of the fp32 projections around the expert."""
    width = size.expert_width
    steps = size.action_horizon
    # π0: actions concatenated with the time, SiLU's input and output
    before = 0 if size.pi05 else 4 * width
    entries = size.action_dim * (1 + _DENSITY)
    return part.rms_norm(size.suffix_len, width, FP32) + FP32 * steps * (before + width + entries)
