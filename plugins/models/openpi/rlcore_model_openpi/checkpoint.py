"""Weights on disk, in openpi's layout: read strictly, and written so that they read back equal.

`model.safetensors` holds the network under openpi's names, `rl_heads.safetensors` critic and noise
head; see layout.py for the names.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from rlcore.track.weights import (
    MergedWeights,
    WeightsFile,
    plain_parameters,
    shapes_of,
    write_weights,
)
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
    """Load all weights of the network from `folder/model.safetensors`, or raise and load none.

    The network keeps its dtypes; one on the meta device takes over the file's tensors instead.

    Raises:
        CheckpointError: the file is missing, damaged, or does not fit the network.
    """
    with WeightsFile(folder / NETWORK_FILE) as file:
        stored = network_keys(file.headers)
        wanted = plain_parameters(network)
        check_network(file.path, file.headers, shapes_of(wanted))
        _fill(network, {name: file.read(key) for name, key in stored.items()}, wanted)


def save_network(network: PiNetwork, folder: Path) -> None:
    """Write `folder/model.safetensors`; low-rank adapters are merged into the weights they adapt.

    openpi's own loader expects the expert's unused `lm_head` too: load with strict=False there.
    """
    tensors = {name: parameter.detach() for name, parameter in plain_parameters(network).items()}
    tensors |= MergedWeights(network)
    tensors[TIED] = tensors.pop(EMBEDDING)
    write_weights(folder / NETWORK_FILE, tensors)


def load_heads(actor: FlowActor, folder: Path) -> list[str]:
    """Load critic and noise head from `folder/rl_heads.safetensors`, or from `model.safetensors`,
    where RLinf stores them.

    Returns:
        Names of heads that the files do not have; these keep their fresh weights.

    Raises:
        CheckpointError: a damaged file, or a head of another shape.
    """
    heads = _heads(actor)
    if not heads:
        return []
    path = folder / HEADS_FILE
    with WeightsFile(path if path.exists() else folder / NETWORK_FILE) as file:
        stored = head_keys(file.headers)
        fresh = []
        for head, module in heads.items():
            keys = {name: key for name, key in stored.items() if name.startswith(f"{head}.")}
            if not keys:
                fresh.append(head)
                continue
            wanted = {f"{head}.{name}": value for name, value in module.named_parameters()}
            check_head(file.path, file.headers, head, shapes_of(wanted))
            with torch.no_grad():
                for name, key in keys.items():
                    wanted[name].copy_(file.read(key))
    return fresh


def save_heads(actor: FlowActor, folder: Path) -> None:
    """Write `folder/rl_heads.safetensors` if the actor has heads."""
    tensors = {
        f"{head}.{name}": value.detach()
        for head, module in _heads(actor).items()
        for name, value in module.named_parameters()
    }
    if tensors:
        write_weights(folder / HEADS_FILE, tensors)


def _heads(actor: FlowActor) -> dict[str, nn.Module]:
    heads = {VALUE_HEAD: actor.value_head, NOISE_HEAD: actor.noise_head}
    return {name: module for name, module in heads.items() if module is not None}


def _fill(
    network: PiNetwork, tensors: dict[str, Tensor], wanted: Mapping[str, nn.Parameter]
) -> None:
    if any(parameter.is_meta for parameter in wanted.values()):
        network.load_state_dict(tensors, assign=True)
        return
    with torch.no_grad():
        for name, parameter in wanted.items():
            parameter.copy_(tensors[name])
