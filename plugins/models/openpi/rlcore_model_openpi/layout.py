"""Define names and shapes of openpi's weights, and the variants of names accepted. No torch.

Names differ between files in four ways: LeRobot puts `model.` before all names; the module path
inside PaliGemma depends on the version of transformers that wrote the file; the embedding has its
own name or that of the tied `lm_head`; and there may be an unused `lm_head` of the expert.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from rlcore_model_openpi.lerobot import BUFFERS
from rlcore_model_openpi.sizes import NetworkSize, conv_channels

VLM = "paligemma_with_expert.paligemma.model"
EXPERT = "paligemma_with_expert.gemma_expert.model"
EMBEDDING = f"{VLM}.language_model.embed_tokens.weight"
TIED = "paligemma_with_expert.paligemma.lm_head.weight"
UNUSED = "paligemma_with_expert.gemma_expert.lm_head.weight"
"""Output of the expert that openpi and LeRobot build and never use; `[vocab, expert_width]`."""
VALUE_HEAD = "value_head"
NOISE_HEAD = "noise_head"

LORA_TARGETS = (
    r"(.*\.)?(language_model|vision_model)\..*"
    r"\.(q_proj|k_proj|v_proj|o_proj|out_proj|gate_proj|up_proj|down_proj|fc1|fc2)"
)
"""Names of the modules that get low-rank adapters: the projections of the VLM's transformers."""

_HEADS = (f"{VALUE_HEAD}.", f"{NOISE_HEAD}.")
_PREFIX = "model."  # of LeRobot
# Module paths of other versions of transformers -> openpi's. Before 4.52 the parts were direct
# children of the VLM; 5.4 dropped the level `vision_model` of the tower.
_LEVELS = (
    (re.compile(r"(\.paligemma)\.language_model\.model\."), r"\1.model.language_model."),
    (re.compile(r"(\.paligemma)\.language_model\.lm_head\."), r"\1.lm_head."),
    (re.compile(r"(\.paligemma)\.(vision_tower|multi_modal_projector)\."), r"\1.model.\2."),
    (
        re.compile(r"(\.vision_tower\.)(embeddings|encoder|post_layernorm)\."),
        r"\1vision_model.\2.",
    ),
)
# RLinf's names of a noise head. RLinf stores the head's range as tensors; here it is a setting.
_RLINF_NOISE = re.compile(r"noise_head\.mlp_logvar\.moduleList\.(\d+)\.linear_1\.")
_RLINF_RANGE = re.compile(r"(?:model\.)?noise_head\.logvar_(min|max)")

Shapes = Iterator[tuple[str, tuple[int, ...]]]


def network_keys(stored: Iterable[str]) -> dict[str, str]:
    """Map the names of the network's weights to their names in a file.

    If two names in the file stand for the same weight, the second is mapped under its own name, so
    that the check against the network's names reports it as unexpected.
    """
    names: dict[str, str] = {}
    for key in stored:
        if key.startswith(BUFFERS):  # LeRobot's statistics
            continue
        name = key.removeprefix(_PREFIX)
        for pattern, replacement in _LEVELS:
            name = pattern.sub(replacement, name)
        names[key if name in names else name] = key
    tied = names.pop(TIED, None)
    if tied is not None:
        names.setdefault(EMBEDDING, tied)
    names.pop(UNUSED, None)
    return {name: key for name, key in names.items() if not name.startswith(_HEADS)}


def head_keys(stored: Iterable[str]) -> dict[str, str]:
    """Map the names of the heads' weights to their names in a file.

    RLinf numbers only the linear layers of a noise head; here activations count as layers too.
    """
    return {
        _RLINF_NOISE.sub(
            lambda match: f"{NOISE_HEAD}.mlp.{2 * int(match[1])}.", key.removeprefix(_PREFIX)
        ): key
        for key in stored
        if key.removeprefix(_PREFIX).startswith(_HEADS) and not _RLINF_RANGE.match(key)
    }


def range_keys(stored: Iterable[str]) -> dict[str, str]:
    """Map "min" and "max" to the file's names of the bounds of a noise head that RLinf stored."""
    return {match[1]: key for key in stored if (match := _RLINF_RANGE.match(key))}


def network_shapes(size: NetworkSize) -> dict[str, tuple[int, ...]]:
    """Return the shapes of all parameters of a network, without heads and adapters."""
    width = size.vlm_width
    expert = size.expert_width
    return dict(
        [
            *_vision(size, f"{VLM}.vision_tower"),
            *_linear(f"{VLM}.multi_modal_projector.linear", size.vision_width, width),
            (EMBEDDING, (size.vocab, width)),
            *_gemma(size, f"{VLM}.language_model", width, size.vlm_mlp, adaptive=False),
            *_gemma(size, EXPERT, expert, size.expert_mlp, adaptive=size.pi05),
            *_linear("action_in_proj", size.action_dim, expert),
            *_linear("action_out_proj", expert, size.action_dim),
            *_time_and_state(size),
        ]
    )


def expert_shapes(size: NetworkSize) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the action expert and projections, which train if the VLM is frozen."""
    shapes = network_shapes(size).items()
    return {name: shape for name, shape in shapes if not name.startswith(VLM)}


def adapter_count(size: NetworkSize, rank: int) -> int:
    """Count the parameters of adapters: `[rank, in]` and `[out, rank]` of a weight `[out, in]`."""
    adapted = re.compile(rf"{LORA_TARGETS}\.weight")
    shapes = network_shapes(size).items()
    return rank * sum(sum(shape) for name, shape in shapes if adapted.fullmatch(name))


def head_shapes(head: str, widths: Sequence[int]) -> dict[str, tuple[int, ...]]:
    """Return the shapes of a head, an MLP with activations between its linear layers.

    Args:
        head: :data:`VALUE_HEAD` or :data:`NOISE_HEAD`.
        widths: of the input, the hidden layers and the output.
    """
    layers = enumerate(pairwise(widths))
    return dict(
        item for layer, (a, b) in layers for item in _linear(f"{head}.mlp.{2 * layer}", a, b)
    )


def _time_and_state(size: NetworkSize) -> Shapes:
    width = size.expert_width
    if size.pi05:
        yield from _linear("time_mlp_in", width, width)
        yield from _linear("time_mlp_out", width, width)
    else:
        yield from _linear("state_proj", size.action_dim, width)
        yield from _linear("action_time_mlp_in", 2 * width, width)
        yield from _linear("action_time_mlp_out", width, width)


def _linear(name: str, inputs: int, outputs: int) -> Shapes:
    yield f"{name}.weight", (outputs, inputs)
    yield f"{name}.bias", (outputs,)


def _gemma(size: NetworkSize, name: str, width: int, mlp: int, *, adaptive: bool) -> Shapes:
    queries = size.heads * size.head_dim
    keys = size.kv_heads * size.head_dim
    for layer in (f"{name}.layers.{number}" for number in range(size.depth)):
        yield f"{layer}.self_attn.q_proj.weight", (queries, width)
        yield f"{layer}.self_attn.k_proj.weight", (keys, width)
        yield f"{layer}.self_attn.v_proj.weight", (keys, width)
        yield f"{layer}.self_attn.o_proj.weight", (width, queries)
        yield f"{layer}.mlp.gate_proj.weight", (mlp, width)
        yield f"{layer}.mlp.up_proj.weight", (mlp, width)
        yield f"{layer}.mlp.down_proj.weight", (width, mlp)
        yield from _norm(f"{layer}.input_layernorm", width, adaptive)
        yield from _norm(f"{layer}.post_attention_layernorm", width, adaptive)
    yield from _norm(f"{name}.norm", width, adaptive)


def _norm(name: str, width: int, adaptive: bool) -> Shapes:
    """Yield the shapes of a norm; an adaptive one maps the time to scale, shift and gate."""
    if adaptive:
        yield from _linear(f"{name}.dense", width, 3 * width)
    else:
        yield f"{name}.weight", (width,)


def _vision(size: NetworkSize, name: str) -> Shapes:
    width = size.vision_width
    if size.vision == "conv":
        for number, (a, b) in enumerate(pairwise(conv_channels(size))):
            yield f"{name}.convs.{number}.weight", (b, a, 3, 3)
            yield f"{name}.convs.{number}.bias", (b,)
        yield f"{name}.position_embedding.weight", (size.image_tokens, width)
        yield from _scale_and_shift(f"{name}.norm", width)
        return
    tower = f"{name}.vision_model"
    yield f"{tower}.embeddings.patch_embedding.weight", (width, 3, *[size.patch_size] * 2)
    yield f"{tower}.embeddings.patch_embedding.bias", (width,)
    yield f"{tower}.embeddings.position_embedding.weight", (size.image_tokens, width)
    for layer in (f"{tower}.encoder.layers.{number}" for number in range(size.vision_depth)):
        yield from _scale_and_shift(f"{layer}.layer_norm1", width)
        for projection in ("q_proj", "k_proj", "v_proj", "out_proj"):
            yield from _linear(f"{layer}.self_attn.{projection}", width, width)
        yield from _scale_and_shift(f"{layer}.layer_norm2", width)
        yield from _linear(f"{layer}.mlp.fc1", width, size.vision_mlp)
        yield from _linear(f"{layer}.mlp.fc2", size.vision_mlp, width)
    yield from _scale_and_shift(f"{tower}.post_layernorm", width)


def _scale_and_shift(name: str, width: int) -> Shapes:
    yield f"{name}.weight", (width,)
    yield f"{name}.bias", (width,)
