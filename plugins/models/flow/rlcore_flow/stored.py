"""Fill a network and RL heads with stored weights of any layout, and write the heads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from rlcore_weights.layouts import StoredWeights, full_scale
from rlcore_weights.tensors import plain_parameters, read_stored, shapes_of, write_weights
from torch import nn

from rlcore_flow.actor import FlowActor
from rlcore_flow.head_shapes import HEADS_FILE, NOISE_HEAD, VALUE_HEAD

CheckHead = Callable[[str, Mapping[str, tuple[int, ...]]], None]


def fill_network(network: nn.Module, stored: StoredWeights, names: Mapping[str, str]) -> None:
    """Load all weights of a network whose names and shapes were checked.

    The network keeps its dtypes; a network on the meta device takes over the tensors of the file,
    with their dtypes, instead. Adapters that are stored with the weights they adapt are merged
    with alpha = rank, as in RLinf's trainer.

    Args:
        network: the network.
        stored: where the weights are.
        names: the parameters' names, to those that `stored` has them under.

    Raises:
        CheckpointError: a file was damaged.
    """
    parameters = plain_parameters(network)
    own_names = {key: name for name, key in names.items()}
    tensors = read_stored(stored, own_names, scale=full_scale)
    if any(parameter.is_meta for parameter in parameters.values()):
        network.load_state_dict({own_names[key]: tensor for key, tensor in tensors}, assign=True)
        return
    with torch.no_grad():
        for key, tensor in tensors:
            parameters[own_names[key]].copy_(tensor)


def heads(actor: FlowActor[Any]) -> dict[str, dict[str, nn.Parameter]]:
    """Return the parameters of each head that the actor has, by their names in files."""
    modules = {VALUE_HEAD: actor.value_head, NOISE_HEAD: actor.noise_head}
    return {
        head: {f"{head}.{name}": value for name, value in module.named_parameters()}
        for head, module in modules.items()
        if module is not None
    }


def save_heads(actor: FlowActor[Any], folder: Path) -> None:
    """Write `folder/rl_heads.safetensors` if the actor has heads."""
    parameters = heads(actor).values()
    if parameters:
        tensors = {name: tensor for head in parameters for name, tensor in head.items()}
        write_weights(folder / HEADS_FILE, tensors)


def fill_heads(
    actor: FlowActor[Any], stored: StoredWeights, names: Mapping[str, str], check: CheckHead
) -> list[str]:
    """Load the heads of an actor.

    Args:
        actor: the actor.
        stored: where the weights are.
        names: names of the heads' weights, to those that `stored` has them under.
        check: checks the stored weights of a head against its shapes.

    Returns:
        Names of the heads that are not stored; these keep their fresh weights.

    Raises:
        CheckpointError: a file was damaged, or `check` raises it.
    """
    fresh = []
    for head, parameters in heads(actor).items():
        keys = {key: name for name, key in names.items() if name.startswith(f"{head}.")}
        if not keys:
            fresh.append(head)
            continue
        check(head, shapes_of(parameters))
        with torch.no_grad():
            for key, tensor in read_stored(stored, keys, scale=full_scale):
                parameters[keys[key]].copy_(tensor)
    return fresh
