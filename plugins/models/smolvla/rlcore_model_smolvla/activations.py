"""Estimate the activation memory of the network from its shapes. No torch."""

from __future__ import annotations

from rlcore_flow.settings import reads_vlm
from rlcore_flow.sizes import conv_channels, patches
from rlcore_weights.activations import BYTES, FP32, Part

from rlcore.contracts.specs import Activations
from rlcore_model_smolvla.resolved import Resolved
from rlcore_model_smolvla.settings import SmolVLAModelConfig
from rlcore_model_smolvla.sizes import NetworkSize

LIBRARIES = 80 * 2**20
"""Host memory in bytes that importing transformers' SigLIP takes."""
_DENSITY = 6  # fp32 numbers per action entry: its point, mean, std, and intermediates of a log-prob


def activations(config: SmolVLAModelConfig, resolved: Resolved) -> Activations:
    """Return the estimate, in bytes per sample."""
    size = resolved.size
    rank = config.lora_rank if config.is_lora else 0
    vlm = Part(
        BYTES[config.precision],
        trained=not (rank or config.smolvla.train_expert_only),
        rank=rank,
    )
    expert = Part(BYTES[config.precision])
    cameras = len(resolved.cameras)
    prefix = size.prefix_len(cameras)
    steps = config.smolvla.num_steps if config.smolvla.joint_logprob else 1
    # without a critic on the VLM the last layer computes only keys and values
    layers = size.depth - (0 if reads_vlm(config.smolvla, resolved.values) else 1)
    depth = size.vision_depth if size.vision == "siglip" else 0
    tower = cameras * vlm.tower_block(patches(size), size.vision_width, size.vision_mlp, maps=3)
    layer = _layer(vlm, size, prefix, prefix, size.vlm_width, size.vlm_mlp)
    actions = size.action_horizon
    expert_layer = _layer(
        expert, size, actions, prefix + actions, size.expert_width, size.expert_mlp
    )
    # the projection of the state is trained in any case, so the layers of a frozen VLM pass its
    # gradients too; its tower passes none
    first = vlm.rms_norm(prefix, size.vlm_width, FP32) + vlm.inputs(prefix, size.vlm_width, 2)
    if vlm.passes_gradients:
        first += cameras * _image_ends(vlm, size)
    else:
        tower = 0
    last = steps * _suffix_ends(expert, size)
    width = 2 * size.kv_heads * size.head_dim  # of keys and values together
    boundaries = layers * prefix * size.vlm_width + size.depth * (
        prefix * width + steps * actions * size.expert_width
    )
    if vlm.passes_gradients:
        boundaries += depth * cameras * patches(size) * size.vision_width
    inside = max(
        cameras * patches(size) * (3 * size.vision_width + 2 * size.vision_mlp),
        prefix * (3 * size.vlm_width + 3 * size.vlm_mlp),
    )
    pixels = FP32 * cameras * 3 * size.image_size**2
    return Activations(
        stored=first + depth * tower + layers * layer + steps * size.depth * expert_layer + last,
        recomputed=first + expert.numbers(boundaries) + max(tower, layer, expert_layer) + last,
        transient=pixels + max(pixels, expert.numbers(inside)),
    )


def _layer(part: Part, size: NetworkSize, tokens: int, keys: int, width: int, mlp: int) -> int:
    """Return the bytes of one layer, including its attention mask."""
    layer = part.gated_layer(
        tokens,
        width,
        mlp,
        keys=keys,
        widths=(size.heads * size.head_dim, size.heads * size.head_dim),
        norm=part.rms_norm(tokens, width, FP32),  # computed in fp32
    )
    return layer + part.numbers(tokens * keys)


def _image_ends(part: Part, size: NetworkSize) -> int:
    """Return the bytes of one image before and after the tower's layers."""
    width = size.vision_width
    if not part.trained:  # neither end has adapters
        return part.numbers(patches(size) * width)
    pixels = size.image_size**2
    last = part.numbers(2 * patches(size) * width)  # inputs of norm and connector
    if size.vision == "siglip":
        return FP32 * 3 * pixels + last
    channels = conv_channels(size)
    inputs = sum(count * pixels >> 2 * n for n, count in enumerate(channels))
    return last + part.numbers(inputs)


def _suffix_ends(part: Part, size: NetworkSize) -> int:
    """Return the bytes of the expert's last norm and of the fp32 projections around the expert."""
    width = size.expert_width
    steps = size.action_horizon
    # actions concatenated with the time, SiLU's input and output
    numbers = 4 * width + width + size.action_dim * (1 + _DENSITY)
    return part.rms_norm(steps, width, FP32) + FP32 * steps * numbers
