"""Define names and shapes of openpi's weights, and the variants of names accepted. No torch.

Names differ between files in four ways: LeRobot puts `model.` before all names; the module path
inside PaliGemma depends on the version of transformers that wrote the file; the embedding has its
own name or that of the tied `lm_head`; and there may be an unused `lm_head` of the expert.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from rlcore_flow.head_shapes import NOISE_HEAD, VALUE_HEAD
from rlcore_flow.lerobot import BUFFERS
from rlcore_flow.shapes import Shapes, linear_shapes, stack_shapes, tower_shapes
from rlcore_flow.sizes import StackSize

from rlcore_model_openpi.sizes import NetworkSize

VLM = "paligemma_with_expert.paligemma.model"
EXPERT = "paligemma_with_expert.gemma_expert.model"
LANGUAGE_MODEL = f"{VLM}.language_model"
EMBEDDING = f"{LANGUAGE_MODEL}.embed_tokens.weight"
TIED = "paligemma_with_expert.paligemma.lm_head.weight"
UNUSED = "paligemma_with_expert.gemma_expert.lm_head.weight"
"""Output of the expert that openpi and LeRobot build and never use; `[vocab, expert_width]`."""

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
            *tower_shapes(size, f"{VLM}.vision_tower"),
            *linear_shapes(f"{VLM}.multi_modal_projector.linear", size.vision_width, width),
            (EMBEDDING, (size.vocab, width)),
            *stack_shapes(stack(size, width, size.vlm_mlp), LANGUAGE_MODEL),
            *stack_shapes(stack(size, expert, size.expert_mlp), EXPERT, adaptive=size.pi05),
            *linear_shapes("action_in_proj", size.action_dim, expert),
            *linear_shapes("action_out_proj", expert, size.action_dim),
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


def _time_and_state(size: NetworkSize) -> Shapes:
    width = size.expert_width
    if size.pi05:
        yield from linear_shapes("time_mlp_in", width, width)
        yield from linear_shapes("time_mlp_out", width, width)
    else:
        yield from linear_shapes("state_proj", size.action_dim, width)
        yield from linear_shapes("action_time_mlp_in", 2 * width, width)
        yield from linear_shapes("action_time_mlp_out", width, width)


def stack(size: NetworkSize, width: int, mlp: int) -> StackSize:
    """Return the sizes of one of the two Gemmas, by its width and the width inside its MLPs."""
    return StackSize(size.depth, size.heads, size.kv_heads, size.head_dim, width, mlp)
