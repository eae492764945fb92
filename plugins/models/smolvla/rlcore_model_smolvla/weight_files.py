"""Find the weights of network and RL heads in a folder and check them. No tensor library."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rlcore_flow.head_shapes import HEADS_FILE
from rlcore_weights.adapter_folder import ADAPTERS_CONFIG
from rlcore_weights.headers import TensorHeader, check_fit, read_headers
from rlcore_weights.layouts import StoredWeights, stored_weights, weights_file

from rlcore.contracts.errors import CheckpointError
from rlcore_model_smolvla.layout import network_keys
from rlcore_model_smolvla.resolved import KEY

_CHOOSE = "set actor.model.model_path to a folder with weights of LeRobot's SmolVLA"


def find_weights(folder: Path) -> StoredWeights:
    """Return the headers and locations of the network's weights in a folder.

    Raises:
        CheckpointError: it holds no weights that this model reads, or adapters of peft.
    """
    if (folder / ADAPTERS_CONFIG).exists():
        raise CheckpointError(
            f"{folder} holds {ADAPTERS_CONFIG}, which this model does not read",
            hint="merge the adapters where they were trained (peft: merge_and_unload, then "
            "save_pretrained) and set actor.model.model_path to that folder",
        )
    return stored_weights(folder, hint=_CHOOSE)


def check_network(
    folder: Path, headers: Mapping[str, TensorHeader], shapes: Mapping[str, tuple[int, ...]]
) -> None:
    """Check that stored weights have the names, shapes and dtypes of the network.

    Args:
        folder: of the weights.
        headers: of the tensors, by the names in the file.
        shapes: of the network's parameters, by their names.

    Raises:
        CheckpointError: the weights don't fit.
    """
    stored = {name: headers[key] for name, key in network_keys(headers).items()}
    check_fit(
        weights_file(folder) or folder,
        stored,
        shapes,
        hint=f"check {KEY}.size: this model reads SmolVLA on SmolVLM2-500M, and what it saved",
    )


def check_head(
    path: Path,
    headers: Mapping[str, TensorHeader],
    head: str,
    shapes: Mapping[str, tuple[int, ...]],
) -> None:
    """Check that a file's tensors of `head` have the names, shapes and dtypes of the policy's head.

    Raises:
        CheckpointError: they don't.
    """
    stored = {name: header for name, header in headers.items() if name.startswith(f"{head}.")}
    check_fit(path, stored, shapes, hint=f"move {HEADS_FILE} away to start with fresh heads")


def check_stored(
    folder: Path,
    network: Mapping[str, tuple[int, ...]],
    heads: Mapping[str, Mapping[str, tuple[int, ...]]],
) -> None:
    """Check all weights of a folder. Only headers are read, which is quick.

    Args:
        folder: the checkpoint.
        network: shapes of the network's parameters.
        heads: shapes of the parameters of each head of the policy. A head that the folder lacks is
            not an error: it starts with fresh weights.

    Raises:
        CheckpointError: a file is missing, damaged or different; the message names it.
    """
    check_network(folder, find_weights(folder).headers, network)
    path = folder / HEADS_FILE
    if not path.exists():
        return
    headers = read_headers(path)
    for head, shapes in heads.items():
        if any(name.startswith(f"{head}.") for name in headers):
            check_head(path, headers, head, shapes)
