"""Low-rank adapters on disk, in peft's format, checked before any worker starts. No tensor library.

adapter_model.safetensors   W + alpha / r B A: A and B by the name of the module they adapt; weights
                            that are fully trained with them, by their own names
adapter_config.json         r, alpha and so on, and the folder of the network
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlcore.errors import CheckpointError
from rlcore.track.damage import damaged
from rlcore.track.headers import TensorHeader, check_fit, read_headers
from rlcore_prismatic.layout import FILM, Shape, adapter_shapes, is_film
from rlcore_prismatic.sizes import SIZE_HINT
from rlcore_prismatic.statistics import read_json

ADAPTERS_FILE, ADAPTERS_CONFIG = "adapter_model.safetensors", "adapter_config.json"
ADAPTER_PREFIX = "base_model.model."

# Keys that do not affect a loaded adapter. The tensors show which modules are adapted.
_NO_EFFECT = frozenset(
    {
        "auto_mapping", "base_model_name_or_path", "exclude_modules", "inference_mode",
        "layers_pattern", "layers_to_transform", "lora_dropout", "megatron_core", "peft_version",
        "qalora_group_size", "revision", "target_modules", "task_type",
    }
)  # fmt: skip
# Allowed values of a key, besides empty. Other initialisations change the weights they adapt.
_MAY_BE: dict[str, tuple[object, ...]] = {
    "peft_type": ("LORA",),
    "bias": ("none",),
    "init_lora_weights": (True, "gaussian"),
    "modules_to_save": (list(FILM), list(reversed(FILM))),
}


@dataclass(frozen=True)
class AdapterSettings:
    """The settings of a folder's adapters.

    Attributes:
        rank: r.
        alpha: alpha / r B A is added to a weight.
        film: whether FiLM's weights, fully trained, are stored with them.
    """

    rank: int
    alpha: float
    film: bool


def has_adapters(folder: Path) -> bool:
    """Whether a checkpoint holds adapters."""
    return (folder / ADAPTERS_FILE).is_file()


def adapter_settings(folder: Path) -> AdapterSettings:
    """Rank and alpha of a folder's adapters.

    Raises:
        CheckpointError: a damaged file, or adapters of another kind than plain LoRA.
    """
    path = folder / ADAPTERS_CONFIG
    content = read_json(path)
    rank, alpha = content.pop("r", None), content.pop("lora_alpha", None)
    others = [f"{name}={value!r}" for name, value in content.items() if not _is_plain(name, value)]
    if others or not content.get("peft_type"):
        raise CheckpointError(
            f"{path} does not describe plain LoRA adapters: "
            f"{', '.join(others) or 'it has no peft_type'}",
            hint="merge them into the model with the program that made them, and use that folder",
        )
    if type(rank) is not int or rank < 1:
        raise damaged(path, f"its rank r is {rank!r}")
    if type(alpha) not in (int, float) or not 0 < alpha < math.inf:
        raise damaged(path, f"its lora_alpha is {alpha!r}")
    return AdapterSettings(rank, alpha, film=bool(content.get("modules_to_save")))


def check_adapters(folder: Path, weights: Mapping[str, Shape], lora_rank: int | None) -> None:
    """Refuse adapters that don't fit the network, or the rank to train. Reads headers only.

    Args:
        weights: shapes of the network that they adapt.
        lora_rank: of the adapters to train; None if they are merged.
    """
    settings = adapter_settings(folder)
    if lora_rank not in (None, settings.rank):
        raise CheckpointError(
            f"{folder} holds adapters of rank {settings.rank}, actor.model.lora_rank is "
            f"{lora_rank}",
            hint=f"set actor.model.lora_rank={settings.rank}, or is_lora=false to merge them",
        )
    headers = read_headers(folder / ADAPTERS_FILE)
    shapes = adapter_shapes(weights, settings.rank)
    hint = SIZE_HINT
    if lora_rank is None:  # to be merged: any of them, if each is complete
        shapes = {name: shape for name, shape in shapes.items() if _module(name) in _found(headers)}
    else:
        hint += "; actor.model.is_lora=false merges adapters of fewer modules"
    if settings.film:
        shapes |= {name: shape for name, shape in weights.items() if is_film(name)}
    wanted = {f"{ADAPTER_PREFIX}{name}": shape for name, shape in shapes.items()}
    check_fit(
        folder / ADAPTERS_FILE,
        headers,
        wanted,
        hint=hint,
    )
    if not _found(headers):
        raise damaged(folder / ADAPTERS_FILE, "it holds no adapters")


def _module(name: str) -> str:
    """The module that an adapter adapts."""
    return name.partition(".lora_")[0]


def _found(headers: Mapping[str, TensorHeader]) -> set[str]:
    """Modules with at least one part of an adapter."""
    return {_module(name.removeprefix(ADAPTER_PREFIX)) for name in headers if ".lora_" in name}


def _is_plain(name: str, value: Any) -> bool:
    return not value or name in _NO_EFFECT or value in _MAY_BE.get(name, ("none",))
