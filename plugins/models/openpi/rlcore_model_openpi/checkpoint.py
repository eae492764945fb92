"""Weights on disk, in openpi's layout: read strictly, write what reads back equal.

`model.safetensors` holds the network under openpi's names, `rl_heads.safetensors` critic and noise
head; see layout.py for the names.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from rlcore.track.headers import damaged, read_headers
from rlcore_model_openpi.files import HEADS_FILE, NETWORK_FILE, check_head, check_network
from rlcore_model_openpi.layout import (
    EMBEDDING,
    NOISE_HEAD,
    TIED,
    VALUE_HEAD,
    head_keys,
    network_keys,
)
from rlcore_model_openpi.network.actor import FlowActor
from rlcore_model_openpi.network.pi0 import PiNetwork


def load_network(network: PiNetwork, folder: Path) -> None:
    """Fill the network from `folder/model.safetensors`; all weights, or none and an error.

    Dtypes of the network are kept. A network on the meta device gets the file's tensors instead.

    Raises:
        CheckpointError: no such file, a damaged one, or weights that don't fit the network.
    """
    with _Reader(folder / NETWORK_FILE) as file:
        stored = network_keys(file.headers)
        wanted = _openpi_parameters(network)
        check_network(file.path, file.headers, _shapes(wanted))
        _fill(network, {name: file.read(key) for name, key in stored.items()}, wanted)


def save_network(network: PiNetwork, folder: Path) -> None:
    """Write `folder/model.safetensors`; low-rank adapters are merged into the weights they adapt.

    openpi's own loader wants the unused `lm_head` of the expert too: load with strict=False there.
    """
    tensors = {name: parameter.detach() for name, parameter in _openpi_parameters(network).items()}
    tensors |= _merged(network)
    tensors[TIED] = tensors.pop(EMBEDDING)
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
        stored = head_keys(file.headers)
        fresh = []
        for head, module in heads.items():
            keys = {name: key for name, key in stored.items() if name.startswith(f"{head}.")}
            if not keys:
                fresh.append(head)
                continue
            wanted = {f"{head}.{name}": value for name, value in module.named_parameters()}
            check_head(file.path, file.headers, head, _shapes(wanted))
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
        self.headers = read_headers(path)
        self._file = safe_open(path, framework="pt")

    def __enter__(self) -> _Reader:
        return self

    def __exit__(self, *exception: object) -> None:
        del self._file

    def read(self, name: str) -> Tensor:
        try:
            return self._file.get_tensor(name)
        except SafetensorError as error:
            raise damaged(self.path, str(error)) from error


def _heads(actor: FlowActor) -> dict[str, nn.Module]:
    heads = {VALUE_HEAD: actor.value_head, NOISE_HEAD: actor.noise_head}
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


def _shapes(parameters: Mapping[str, Tensor]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(parameter.shape) for name, parameter in parameters.items()}


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
