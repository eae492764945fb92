"""Load weights, strictly, from any layout, and save them in openpi's. They round-trip exactly.

`model.safetensors` holds the network under openpi's names, `rl_heads.safetensors` holds the critic
and the noise head; layout.py lists the names.
"""

from __future__ import annotations

from pathlib import Path

import torch
from rlcore_weights.layouts import full_scale, stored_file, weights_file
from rlcore_weights.tensors import (
    MergedWeights,
    plain_parameters,
    read_stored,
    shapes_of,
    write_weights,
)
from torch import nn

from rlcore_model_openpi.layout import (
    EMBEDDING,
    NOISE_HEAD,
    TIED,
    UNUSED,
    VALUE_HEAD,
    head_keys,
    network_keys,
)
from rlcore_model_openpi.network.actor import FlowActor
from rlcore_model_openpi.network.pi0 import PiNetwork
from rlcore_model_openpi.weight_files import (
    HEADS_FILE,
    NETWORK_FILE,
    check_head,
    check_network,
    find_weights,
)


def load_network(network: PiNetwork, folder: Path) -> None:
    """Load all weights of the network from a folder.

    Names and shapes are checked before any weight is loaded. Adapters that are stored with the
    weights they adapt are merged with alpha = rank, as in RLinf's trainer. The network keeps its
    dtypes; a network on the meta device takes over the file's tensors, with their dtypes, instead.

    Raises:
        CheckpointError: a file is missing, damaged, or does not fit the network.
    """
    stored = find_weights(folder)
    parameters = plain_parameters(network)
    check_network(weights_file(folder) or folder, stored.headers, shapes_of(parameters))
    names = {key: name for name, key in network_keys(stored.headers).items()}
    tensors = read_stored(stored, names, scale=full_scale)
    if any(parameter.is_meta for parameter in parameters.values()):
        network.load_state_dict({names[key]: tensor for key, tensor in tensors}, assign=True)
        return
    with torch.no_grad():
        for key, tensor in tensors:
            parameters[names[key]].copy_(tensor)


def save_network(network: PiNetwork, folder: Path) -> None:
    """Write `folder/model.safetensors`; low-rank adapters are merged into the weights they adapt.

    The strict loaders of openpi and LeRobot also need the expert's output layer, which neither
    uses. It is written as zeros, in bfloat16 to take less space.
    """
    tensors = {name: parameter.detach() for name, parameter in plain_parameters(network).items()}
    tensors |= MergedWeights(network)
    tensors[TIED] = tensors.pop(EMBEDDING)
    size = network.size
    tensors[UNUSED] = torch.zeros(size.vocab, size.expert_width, dtype=torch.bfloat16)
    write_weights(folder / NETWORK_FILE, tensors)


def load_heads(actor: FlowActor, folder: Path) -> list[str]:
    """Load critic and noise head from `folder/rl_heads.safetensors`.

    Without that file they are read from the network's file, in which RLinf stores them.

    Returns:
        Names of the heads that the file lacks; these keep their fresh weights.

    Raises:
        CheckpointError: the file is damaged, or a head has other shapes.
    """
    heads = _heads(actor)
    if not heads:
        return []
    path = folder / HEADS_FILE
    if path.exists():
        stored = stored_file(path)
    else:
        path = weights_file(folder) or folder
        stored = find_weights(folder)
    stored_names = head_keys(stored.headers)
    fresh = []
    for head, parameters in heads.items():
        keys = {key: name for name, key in stored_names.items() if name.startswith(f"{head}.")}
        if not keys:
            fresh.append(head)
            continue
        check_head(path, stored.headers, head, shapes_of(parameters))
        with torch.no_grad():
            for key, tensor in read_stored(stored, keys, scale=full_scale):
                parameters[keys[key]].copy_(tensor)
    return fresh


def save_heads(actor: FlowActor, folder: Path) -> None:
    """Write `folder/rl_heads.safetensors` if the actor has heads."""
    heads = _heads(actor).values()
    if heads:
        tensors = {name: tensor for head in heads for name, tensor in head.items()}
        write_weights(folder / HEADS_FILE, tensors)


def _heads(actor: FlowActor) -> dict[str, dict[str, nn.Parameter]]:
    """Return the parameters of each head that the actor has, by their names in files."""
    heads = {VALUE_HEAD: actor.value_head, NOISE_HEAD: actor.noise_head}
    return {
        head: {f"{head}.{name}": value for name, value in module.named_parameters()}
        for head, module in heads.items()
        if module is not None
    }
