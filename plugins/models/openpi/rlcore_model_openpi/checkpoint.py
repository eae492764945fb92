"""Weights on disk, in openpi's layout: read strictly, write what reads back equal.

`model.safetensors` holds the network under openpi's names, `rl_heads.safetensors` critic and noise
head. Files differ in three ways that are all accepted: the embedding may be stored under its own
name or that of the tied `lm_head`; the `vision_model.` level may be missing (transformers 5.4
dropped it); and an `lm_head` of the expert, which nothing uses, may be there.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from rlcore.errors import CheckpointError
from rlcore_model_openpi.network.actor import FlowActor
from rlcore_model_openpi.network.pi0 import PiNetwork

NETWORK_FILE = "model.safetensors"
HEADS_FILE = "rl_heads.safetensors"

_EMBEDDING = "paligemma_with_expert.paligemma.model.language_model.embed_tokens.weight"
_TIED = "paligemma_with_expert.paligemma.lm_head.weight"
_UNUSED = "paligemma_with_expert.gemma_expert.lm_head.weight"
_HEADS = ("value_head.", "noise_head.")
# The level that newer transformers leaves out, before one of its three children.
_MISSING_LEVEL = re.compile(r"(\.vision_tower\.)(embeddings|encoder|post_layernorm)\.")
# A noise head as RLinf names it; its range is configuration here.
_RLINF_NOISE = re.compile(r"noise_head\.mlp_logvar\.moduleList\.(\d+)\.linear_1\.")
_RLINF_RANGE = re.compile(r"noise_head\.logvar_(min|max)")
_NAMES_SHOWN = 8


def load_network(network: PiNetwork, folder: Path) -> None:
    """Fill the network from `folder/model.safetensors`; all weights, or none and an error.

    Dtypes of the network are kept. A network on the meta device gets the file's tensors instead.

    Raises:
        CheckpointError: no such file, a damaged one, or weights that don't fit the network.
    """
    with _Reader(folder / NETWORK_FILE) as file:
        stored = _network_keys(file.shapes)
        wanted = _openpi_parameters(network)
        _check(
            file.path,
            {name: file.shapes[key] for name, key in stored.items()},
            wanted,
            hint="check actor.model.openpi.config_name and size, which fix the network's shape",
        )
        _fill(network, {name: file.read(key) for name, key in stored.items()}, wanted)


def save_network(network: PiNetwork, folder: Path) -> None:
    """Write `folder/model.safetensors`; low-rank adapters are merged into the weights they adapt.

    openpi's own loader wants the unused `lm_head` of the expert too: load with strict=False there.
    """
    tensors = {name: parameter.detach() for name, parameter in _openpi_parameters(network).items()}
    tensors |= _merged(network)
    tensors[_TIED] = tensors.pop(_EMBEDDING)
    _write(tensors, folder / NETWORK_FILE)


def load_heads(actor: FlowActor, folder: Path) -> list[str]:
    """Fill critic and noise head from `folder/rl_heads.safetensors`, or from head weights beside
    the network's in `model.safetensors`, as RLinf stores them.

    Returns:
        Names of heads the files do not hold; these keep their fresh weights.

    Raises:
        CheckpointError: a damaged file, or a head of another shape.
    """
    heads = _heads(actor)
    if not heads:
        return []
    path = folder / HEADS_FILE
    with _Reader(path if path.exists() else folder / NETWORK_FILE) as file:
        stored = _head_keys(file.shapes)
        fresh = []
        for head, module in heads.items():
            keys = {name: key for name, key in stored.items() if name.startswith(f"{head}.")}
            if not keys:
                fresh.append(head)
                continue
            wanted = {f"{head}.{name}": value for name, value in module.named_parameters()}
            _check(
                file.path,
                {name: file.shapes[key] for name, key in keys.items()},
                wanted,
                hint=f"move {HEADS_FILE} away to start with fresh heads",
            )
            with torch.no_grad():
                for name, key in keys.items():
                    wanted[name].copy_(file.read(key))
    return fresh


def save_heads(actor: FlowActor, folder: Path) -> None:
    """Write `folder/rl_heads.safetensors`, where the actor has heads."""
    tensors = {
        f"{head}.{name}": value.detach()
        for head, module in _heads(actor).items()
        for name, value in module.named_parameters()
    }
    if tensors:
        _write(tensors, folder / HEADS_FILE)


class _Reader:
    """A safetensors file whose faults are CheckpointErrors."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if not path.is_file():
            raise CheckpointError(
                f"{path.parent} holds no {path.name}",
                hint="set actor.model.model_path to a folder with openpi's model.safetensors",
            )
        try:
            self._file = safe_open(path, framework="pt")
            names = self._file.keys()
            self.shapes = {name: tuple(self._file.get_slice(name).get_shape()) for name in names}
        except SafetensorError as error:
            raise self._damaged(error) from error

    def __enter__(self) -> _Reader:
        return self

    def __exit__(self, *exception: object) -> None:
        del self._file

    def read(self, name: str) -> Tensor:
        try:
            return self._file.get_tensor(name)
        except SafetensorError as error:
            raise self._damaged(error) from error

    def _damaged(self, error: SafetensorError) -> CheckpointError:
        return CheckpointError(
            f"{self.path} is damaged or incomplete ({error})", hint="copy or download it again"
        )


def _network_keys(stored: Iterable[str]) -> dict[str, str]:
    """Our name -> the file's, for everything that concerns the network."""
    names = {_MISSING_LEVEL.sub(r"\1vision_model.\2.", key): key for key in stored}
    tied = names.pop(_TIED, None)
    if tied is not None:
        names.setdefault(_EMBEDDING, tied)
    names.pop(_UNUSED, None)
    return {name: key for name, key in names.items() if not name.startswith(_HEADS)}


def _head_keys(stored: Iterable[str]) -> dict[str, str]:
    """Our name -> the file's, for the heads. RLinf numbers layers, we activations between too."""
    return {
        _RLINF_NOISE.sub(lambda match: f"noise_head.mlp.{2 * int(match[1])}.", key): key
        for key in stored
        if key.startswith(_HEADS) and not _RLINF_RANGE.match(key)
    }


def _heads(actor: FlowActor) -> dict[str, nn.Module]:
    heads = {"value_head": actor.value_head, "noise_head": actor.noise_head}
    return {name: module for name, module in heads.items() if module is not None}


def _openpi_parameters(network: PiNetwork) -> dict[str, nn.Parameter]:
    """Parameters by openpi's name: without adapters, and as if there were none."""
    return {
        name.replace(".base_layer.", "."): parameter
        for name, parameter in network.named_parameters()
        if ".lora_" not in name
    }


def _merged(network: PiNetwork) -> dict[str, Tensor]:
    """Adapted weights with their adapters added, by openpi's name."""
    if not any(".lora_" in name for name, _ in network.named_parameters()):
        return {}  # peft takes seconds to import
    from peft.tuners.lora import LoraLayer

    merged = {}
    for name, module in network.named_modules():
        if isinstance(module, LoraLayer):
            weight = module.get_base_layer().weight.detach()
            delta = sum(module.get_delta_weight(adapter) for adapter in module.active_adapters)
            merged[f"{name}.weight"] = weight + delta.detach().to(weight.dtype)
    return merged


def _check(
    path: Path, stored: Mapping[str, tuple[int, ...]], wanted: Mapping[str, Tensor], *, hint: str
) -> None:
    """One error for all that does not fit."""
    shapes = {
        f"{name} is {list(stored[name])}, the network's is {list(wanted[name].shape)}"
        for name in stored.keys() & wanted.keys()
        if stored[name] != tuple(wanted[name].shape)
    }
    faults = {
        "missing": wanted.keys() - stored.keys(),
        "unexpected": stored.keys() - wanted.keys(),
        "wrong shape": shapes,
    }
    lines = [f"{kind} ({len(names)}): {_some(names)}" for kind, names in faults.items() if names]
    if lines:
        raise CheckpointError(
            f"{path} does not fit the network\n  " + "\n  ".join(lines), hint=hint
        )


def _some(names: Iterable[str]) -> str:
    ordered = sorted(names)
    rest = len(ordered) - _NAMES_SHOWN
    return ", ".join(ordered[:_NAMES_SHOWN]) + (f" and {rest} more" if rest > 0 else "")


def _fill(
    network: PiNetwork, tensors: dict[str, Tensor], wanted: Mapping[str, nn.Parameter]
) -> None:
    if any(parameter.is_meta for parameter in wanted.values()):
        network.load_state_dict(tensors, assign=True)
        return
    with torch.no_grad():
        for name, parameter in wanted.items():
            parameter.copy_(tensors[name])


def _write(tensors: Mapping[str, Tensor], path: Path) -> None:
    """All or nothing: under a temporary name first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f"{path.name}.part")
    contiguous = {name: tensor.cpu().contiguous() for name, tensor in tensors.items()}
    save_file(contiguous, unfinished, metadata={"format": "pt"})
    unfinished.chmod(0o644)  # safetensors writes for the owner alone
    os.replace(unfinished, path)
