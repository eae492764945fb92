"""Read and check low-rank adapters in peft's format before a worker starts. No tensor library.

adapter_model.safetensors   W + s B A: A and B by the name of the module they adapt; weights that
                            are fully trained with them; and copies of W of output layers
adapter_config.json         r, alpha and so on, and the model that they adapt

s is alpha / r, or alpha / sqrt(r) with `use_rslora`; `rank_pattern` and `alpha_pattern` give other
values for some modules.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any

from rlcore_weights.headers import check_fit, read_headers
from rlcore_weights.layouts import has_weights
from rlcore_weights.torch_files import resave

from rlcore.contracts.errors import CheckpointError
from rlcore.files.damaged_files import damaged_error, read_mapping
from rlcore_prismatic.layout import FILM, Shape, is_film, low_rank_shapes
from rlcore_prismatic.sizes import SIZE_HINT

ADAPTERS_FILE = "adapter_model.safetensors"
ADAPTERS_CONFIG = "adapter_config.json"
PICKLED_ADAPTERS = "adapter_model.bin"
ADAPTER_PREFIX = "base_model.model."

_LOW_RANK = (".lora_A.weight", ".lora_B.weight")
_MERGE = (
    "merge them into the model with the program that made them (in peft: "
    "model.merge_and_unload().save_pretrained(FOLDER)), and use that folder"
)

# Keys that do not affect a loaded adapter. The tensors show which modules are adapted.
_NO_EFFECT = frozenset(
    {
        "auto_mapping",
        "base_model_name_or_path",
        "ensure_weight_tying",
        "eva_config",
        "exclude_modules",
        "fan_in_fan_out",
        "inference_mode",
        "layers_pattern",
        "layers_to_transform",
        "lora_dropout",
        "megatron_core",
        "modules_to_save",
        "peft_version",
        "qalora_group_size",
        "revision",
        "target_modules",
        "task_type",
    }
)
# Allowed values of a key, besides empty. Other initialisations change the weights they adapt.
_MAY_BE: dict[str, tuple[object, ...]] = {
    "peft_type": ("LORA",),
    "bias": ("none",),
    "init_lora_weights": (True, "gaussian", "orthogonal", "eva"),
}


@dataclass(frozen=True)
class AdapterSettings:
    """The settings of a folder's adapters.

    Attributes:
        rank: r.
        alpha: alpha.
        rslora: whether s is alpha / sqrt(r) instead of alpha / r.
        ranks, alphas: r and alpha of the modules whose names match a pattern, by the pattern.
        trained: last parts of the names of modules that were fully trained, with their submodules.
        base: the model that is adapted, as the file names it; None if it names none.
    """

    rank: int
    alpha: float
    rslora: bool = False
    ranks: Mapping[str, int] = field(default_factory=dict)
    alphas: Mapping[str, float] = field(default_factory=dict)
    trained: tuple[str, ...] = ()
    base: str | None = None

    def rank_of(self, module: str) -> int:
        """Return r of a module."""
        matching = [rank for pattern, rank in self.ranks.items() if _matches(pattern, module)]
        return matching[0] if matching else self.rank

    def scale_of(self, module: str) -> float:
        """Return s of a module."""
        rank = self.rank_of(module)
        matching = [alpha for pattern, alpha in self.alphas.items() if _matches(pattern, module)]
        alpha = matching[0] if matching else self.alpha
        return alpha / (math.sqrt(rank) if self.rslora else rank)

    @property
    def plain_alpha(self) -> float:
        """The alpha that gives the same s as alpha / r, without `use_rslora`."""
        return self.alpha * math.sqrt(self.rank) if self.rslora else self.alpha


@dataclass(frozen=True)
class Adapters:
    """A folder's adapters, checked to fit a network.

    Attributes:
        settings: settings of the adapters.
        file: the file with their tensors.
        modules: the network's modules that they adapt.
        component_modules: modules that they adapt in components outside the network.
        trained: weights of the network that were fully trained with them -> names in the file.
        copies: weights of the model they adapt -> names in the file.
    """

    settings: AdapterSettings
    file: Path
    modules: tuple[str, ...]
    component_modules: tuple[str, ...]
    trained: Mapping[str, str]
    copies: Mapping[str, str]


def has_adapters(folder: Path) -> bool:
    """Return whether a folder holds adapters, or their settings without any weights."""
    if any((folder / name).is_file() for name in (ADAPTERS_FILE, PICKLED_ADAPTERS)):
        return True
    return (folder / ADAPTERS_CONFIG).is_file() and not has_weights(folder)


def adapter_settings(folder: Path) -> AdapterSettings:
    """Read the settings of a folder's adapters.

    Raises:
        CheckpointError: the file is damaged, or the adapters are not plain LoRA.
    """
    path = folder / ADAPTERS_CONFIG
    content = read_mapping(path)
    rank = content.pop("r", None)
    alpha = content.pop("lora_alpha", None)
    rslora = content.pop("use_rslora", None)
    ranks = content.pop("rank_pattern", None) or {}
    alphas = content.pop("alpha_pattern", None) or {}
    others = [f"{name}={value!r}" for name, value in content.items() if not _is_plain(name, value)]
    if others or not content.get("peft_type"):
        raise CheckpointError(
            f"{path} does not describe plain LoRA adapters: "
            f"{', '.join(others) or 'it has no peft_type'}",
            hint=_MERGE,
        )
    for name, value, numbers in (
        ("r", rank, [rank]),
        ("rank_pattern", ranks, _values(path, ranks)),
    ):
        if not all(type(number) is int and number >= 1 for number in numbers):
            raise damaged_error(path, f"its rank {name} is {value!r}")
    for name, value, numbers in (
        ("lora_alpha", alpha, [alpha]),
        ("alpha_pattern", alphas, _values(path, alphas)),
    ):
        if not all(type(number) in (int, float) and 0 < number < math.inf for number in numbers):
            raise damaged_error(path, f"its {name} is {value!r}")
    trained = content.get("modules_to_save") or ()
    base = content.get("base_model_name_or_path")
    return AdapterSettings(
        rank, alpha, bool(rslora), ranks, alphas, tuple(map(str, trained)), base or None
    )


def read_adapters(
    folder: Path,
    weights: Mapping[str, Shape],
    lora_rank: int | None,
    *,
    component_shapes: Mapping[str, Shape],
    merged: tuple[str, ...] = (),
) -> Adapters:
    """Read a folder's adapters and check that they fit. Reads headers only.

    Args:
        folder: the folder.
        weights: shapes of the network that they adapt.
        lora_rank: rank of the adapters to train; None if the adapters are merged.
        component_shapes: shapes of components outside the network, which RLinf's trainer adapts
            too. Their adapters are always merged.
        merged: name prefixes of weights that have their adapters merged elsewhere.

    Raises:
        CheckpointError: they don't fit the network, or can't be trained with that rank.
    """
    settings = adapter_settings(folder)
    file = folder / ADAPTERS_FILE
    if not file.is_file() and not (folder / PICKLED_ADAPTERS).is_file():
        raise CheckpointError(
            f"{folder} holds {ADAPTERS_CONFIG}, but no {ADAPTERS_FILE}",
            hint="copy or download it again",
        )
    if not file.is_file():
        raise CheckpointError(
            f"{folder} holds {PICKLED_ADAPTERS}, not {ADAPTERS_FILE}",
            hint=f"convert it: {resave(folder / PICKLED_ADAPTERS, file)}",
        )
    if lora_rank is not None:
        _check_trainable(folder, settings, weights, lora_rank)
    headers = {
        name: header
        for name, header in read_headers(file).items()
        if not _bare(name).startswith(merged or (" ",))
    }
    unsupported = sorted(
        name for name in headers if ".lora_" in name and not name.endswith(_LOW_RANK)
    )
    if unsupported:
        raise CheckpointError(
            f"{file} holds {unsupported[0]}, which is no plain LoRA adapter of a linear map",
            hint=_MERGE,
        )
    modules = [_bare(name).partition(".lora_")[0] for name in headers if ".lora_" in name]
    whole = {name: _bare(name).replace(".base_layer.", ".") for name in headers}
    whole = {name: own for name, own in whole.items() if own in weights}
    expected = {name: weights[own] for name, own in whole.items()}
    for module in modules:
        shape = {**weights, **component_shapes}.get(f"{module}.weight", ())
        if len(shape) >= 2:
            parts = low_rank_shapes(module, shape, settings.rank_of(module))
            expected |= {f"{ADAPTER_PREFIX}{name}": part for name, part in parts.items()}
    if settings.trained and set(settings.trained) <= set(FILM):
        film = {name: shape for name, shape in weights.items() if is_film(name)}
        expected |= {f"{ADAPTER_PREFIX}{name}": shape for name, shape in film.items()}
    check_fit(file, headers, expected, hint=SIZE_HINT)
    if not modules:
        raise damaged_error(file, "it holds no adapters")
    trained = {own: name for name, own in whole.items() if _is_trained(name, settings)}
    copies = {own: name for name, own in whole.items() if own not in trained}
    modules = list(dict.fromkeys(modules))  # each module has a tensor A and a tensor B
    network_modules = tuple(module for module in modules if f"{module}.weight" in weights)
    component_modules = tuple(module for module in modules if f"{module}.weight" not in weights)
    return Adapters(settings, file, network_modules, component_modules, trained, copies)


def _check_trainable(
    folder: Path, settings: AdapterSettings, weights: Mapping[str, Shape], lora_rank: int
) -> None:
    """Check that training of the adapters can continue.

    They must have one rank and one alpha, and no fully trained modules except FiLM's.

    Raises:
        CheckpointError: they can't be trained with these settings.
    """
    if lora_rank != settings.rank:
        raise CheckpointError(
            f"{folder} holds adapters of rank {settings.rank}, actor.model.lora_rank is "
            f"{lora_rank}",
            hint=f"set actor.model.lora_rank={settings.rank}, or is_lora=false to merge them",
        )
    other_trained = [name for name in settings.trained if name not in FILM]
    unequal = [
        f"{name}={value!r}"
        for name, value in (
            ("rank_pattern", settings.ranks),
            ("alpha_pattern", settings.alphas),
            ("modules_to_save", other_trained),
        )
        if value
    ]
    if unequal:
        raise CheckpointError(
            f"{folder} holds adapters that can be merged, but not trained on: {', '.join(unequal)}",
            hint="set actor.model.is_lora=false to merge them; rlcore export writes the merged "
            "model, and adapters of it can be trained",
        )


def _bare(name: str) -> str:
    """Return a tensor's name in the file without peft's prefix."""
    return name.removeprefix(ADAPTER_PREFIX)


def _is_trained(name: str, settings: AdapterSettings) -> bool:
    """Return whether a whole weight in the file was trained, and is no copy of the base's."""
    modules = accumulate(name.split(".")[:-1], "{}.{}".format)  # the outermost first
    return ".base_layer." not in name and any(m.endswith(settings.trained) for m in modules)


def _matches(pattern: str, module: str) -> bool:
    """Return whether a peft pattern matches a module's whole name, or its last parts."""
    return re.fullmatch(rf"(.*\.)?({pattern})", module) is not None


def _values(path: Path, patterns: object) -> list[Any]:
    """Return the values of a mapping, after checking that its keys are regular expressions."""
    if not isinstance(patterns, dict):
        raise damaged_error(path, f"its patterns are {patterns!r}, not a mapping")
    for pattern in patterns:
        try:
            re.compile(pattern)
        except re.error as error:
            raise damaged_error(path, f"{pattern!r} is no pattern: {error}") from None
    return list(patterns.values())


def _is_plain(name: str, value: Any) -> bool:
    return not value or name in _NO_EFFECT or value in _MAY_BE.get(name, ("none",))
