"""Load weights, strictly, from any layout, and save them in openpi's. They round-trip exactly.

`model.safetensors` holds the network under openpi's names, `rl_heads.safetensors` holds the critic
and the noise head; layout.py lists the names.
"""

from __future__ import annotations

from pathlib import Path

import torch
from rlcore_flow.actor import FlowActor
from rlcore_flow.head_shapes import HEADS_FILE
from rlcore_flow.stored import fill_heads, fill_network, heads
from rlcore_weights.layouts import stored_file, weights_file
from rlcore_weights.tensors import (
    MergedWeights,
    plain_parameters,
    shapes_of,
    write_weights,
)

from rlcore_model_openpi.layout import (
    EMBEDDING,
    TIED,
    UNUSED,
    head_keys,
    network_keys,
)
from rlcore_model_openpi.network.pi0 import PiNetwork
from rlcore_model_openpi.weight_files import (
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
    shapes = shapes_of(plain_parameters(network))
    check_network(weights_file(folder) or folder, stored.headers, shapes)
    fill_network(network, stored, network_keys(stored.headers))


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


def load_heads(actor: FlowActor[PiNetwork], folder: Path) -> list[str]:
    """Load critic and noise head from `folder/rl_heads.safetensors`.

    Without that file they are read from the network's file, in which RLinf stores them.

    Returns:
        Names of the heads that the file lacks; these keep their fresh weights.

    Raises:
        CheckpointError: the file is damaged, or a head has other shapes.
    """
    if not heads(actor):
        return []
    path = folder / HEADS_FILE
    if path.exists():
        stored = stored_file(path)
    else:
        path = weights_file(folder) or folder
        stored = find_weights(folder)
    return fill_heads(
        actor,
        stored,
        head_keys(stored.headers),
        lambda head, shapes: check_head(path, stored.headers, head, shapes),
    )
