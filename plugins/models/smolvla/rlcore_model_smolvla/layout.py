"""Define names and shapes of the network's weights, and the names that files have. No torch.

LeRobot puts `model.` before all names, or `model._orig_mod.` if the network was compiled. Its
vision tower has one level less than ours, and its `lm_head` is never used.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import partial

from rlcore_flow.lerobot import BUFFERS
from rlcore_flow.shapes import linear_shapes, stack_shapes, tower_shapes
from rlcore_flow.sizes import StackSize

from rlcore_model_smolvla.sizes import NetworkSize

VLM = "vlm_with_expert.vlm.model"
EXPERT = "vlm_with_expert.lm_expert"
LANGUAGE_MODEL = f"{VLM}.text_model"
EMBEDDING = f"{LANGUAGE_MODEL}.embed_tokens.weight"
HEAD = "vlm_with_expert.vlm.lm_head.weight"
"""Output of the language model, `[vocab, vlm_width]`: LeRobot builds it and never uses it."""

LORA_TARGETS = (
    r"(.*\.)?(text_model|vision_model)\..*"
    r"\.(q_proj|k_proj|v_proj|o_proj|out_proj|gate_proj|up_proj|down_proj|fc1|fc2)"
)
"""Names of the modules that get low-rank adapters: the projections of the VLM's transformers."""

_PREFIX = re.compile(r"^model\.(_orig_mod\.)?")
_TOWER = f"{VLM}.vision_model."
_TRANSFORMER = tuple(f"{_TOWER}{part}." for part in ("embeddings", "encoder", "post_layernorm"))


def network_keys(stored: Iterable[str]) -> dict[str, str]:
    """Map the names of the network's weights to their names in a file.

    Statistics, and the unused output of the language model, are left out.
    """
    names: dict[str, str] = {}
    for key in stored:
        if key.startswith(BUFFERS):
            continue
        name = _PREFIX.sub("", key)
        if name.startswith(_TRANSFORMER):
            name = name.replace(_TOWER, f"{_TOWER}vision_model.", 1)
        names[key if name in names else name] = key
    head = names.pop(HEAD, None)
    if head is not None:  # safetensors stores only one of two tied tensors
        names.setdefault(EMBEDDING, head)
    return names


def file_name(name: str) -> str:
    """Return LeRobot's name of a weight of the network."""
    return "model." + name.replace(f"{_TOWER}vision_model.", _TOWER)


def network_shapes(size: NetworkSize) -> dict[str, tuple[int, ...]]:
    """Return the shapes of all parameters of a network, without heads and adapters."""
    width = size.vlm_width
    expert = size.expert_width
    joined = size.vision_width * size.shuffle**2
    return dict(
        [
            *tower_shapes(size, f"{VLM}.vision_model"),
            (f"{VLM}.connector.modality_projection.proj.weight", (width, joined)),
            *stack_shapes(stack(size, width, size.vlm_mlp), LANGUAGE_MODEL),
            (EMBEDDING, (size.vocab, width)),
            *stack_shapes(
                stack(size, expert, size.expert_mlp), EXPERT, keys_width=partial(_keys_width, size)
            ),
            *linear_shapes("state_proj", size.state_dim, width),
            *linear_shapes("action_in_proj", size.action_dim, expert),
            *linear_shapes("action_out_proj", expert, size.action_dim),
            *linear_shapes("action_time_mlp_in", 2 * expert, expert),
            *linear_shapes("action_time_mlp_out", expert, expert),
        ]
    )


def expert_shapes(size: NetworkSize) -> dict[str, tuple[int, ...]]:
    """Return the shapes of action expert and projections, which train if the VLM is frozen."""
    shapes = network_shapes(size).items()
    return {name: shape for name, shape in shapes if not name.startswith(VLM)}


def adapter_count(size: NetworkSize, rank: int) -> int:
    """Count the parameters of adapters: `[rank, in]` and `[out, rank]` of a weight `[out, in]`."""
    adapted = re.compile(rf"{LORA_TARGETS}\.weight")
    shapes = network_shapes(size).items()
    return rank * sum(sum(shape) for name, shape in shapes if adapted.fullmatch(name))


def stack(size: NetworkSize, width: int, mlp: int) -> StackSize:
    """Return the sizes of language model or expert, by width and the width inside the MLPs."""
    return StackSize(size.depth, size.heads, size.kv_heads, size.head_dim, width, mlp)


def _keys_width(size: NetworkSize, layer: int) -> int:
    """Return the width of what the keys of a layer of the expert are computed from."""
    return size.kv_heads * size.head_dim if size.crosses(layer) else size.expert_width
