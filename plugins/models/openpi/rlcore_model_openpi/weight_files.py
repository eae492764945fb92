"""Find the weights of the network and of the RL heads in a checkpoint folder and check them.

Reads file headers only; imports no tensor library.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from rlcore_flow.head_shapes import HEADS_FILE
from rlcore_weights.adapter_folder import ADAPTERS_CONFIG
from rlcore_weights.headers import TensorHeader, check_fit, read_headers
from rlcore_weights.layouts import StoredWeights, has_weights, stored_weights, weights_file

from rlcore.contracts.errors import CheckpointError
from rlcore_model_openpi.layout import head_keys, network_keys, network_shapes
from rlcore_model_openpi.resolved import KEY
from rlcore_model_openpi.sizes import SIZES

NETWORK_FILE = "model.safetensors"

_CHOOSE = "set actor.model.model_path to a folder with weights of openpi, RLinf or LeRobot"
_MERGE = (
    "merge them where they were trained (peft: merge_and_unload, then save_pretrained) and set "
    "actor.model.model_path to that folder"
)


def find_weights(folder: Path) -> StoredWeights:
    """Return the headers and locations of the weights in a checkpoint folder.

    Raises:
        CheckpointError: `folder` is not a folder, or holds no weights that this model reads (the
            hint says how to convert them), or holds adapters together with a config of peft.
    """
    if not folder.is_dir():
        raise CheckpointError(
            f"actor.model.model_path {str(folder)!r} is not a folder",
            hint="give the folder of a checkpoint, or null to start from random weights",
        )
    if not has_weights(folder):
        _refuse_convertible(folder)
    stored = stored_weights(folder, hint=_CHOOSE)
    if stored.adapters and (folder / ADAPTERS_CONFIG).exists():
        raise CheckpointError(
            f"{folder} holds {ADAPTERS_CONFIG}, which this model does not read: adapters among the "
            "weights are merged with alpha = rank, as in RLinf's trainer",
            hint=f"move {ADAPTERS_CONFIG} away if its lora_alpha is its r, else {_MERGE}",
        )
    return stored


def _refuse_convertible(folder: Path) -> None:
    """Raise for weights in a format that can be converted; the hint holds the command.

    Covers JAX checkpoints of openpi and folders with nothing but adapters.
    """
    inside = (folder / "_METADATA").exists()
    if inside or (folder / "params").is_dir():
        top = folder.parent if inside else folder
        raise CheckpointError(
            f"{folder} is a JAX checkpoint of openpi, and this model reads PyTorch's",
            hint="convert it where openpi is installed: uv run "
            f"examples/convert_jax_model_to_pytorch.py --checkpoint_dir {top} --config_name "
            f"OPENPI_CONFIG --output_path {top}_pytorch; then copy {top / 'assets'} to "
            f"{top}_pytorch/assets",
        )
    if (folder / ADAPTERS_CONFIG).is_file():
        raise CheckpointError(
            f"{folder} holds adapters alone, without the weights that they adapt", hint=_MERGE
        )


def heads_of(folder: Path, stored: StoredWeights) -> tuple[Path, Mapping[str, TensorHeader]]:
    """Return the file that holds the heads, and the headers of all its tensors.

    This is `rl_heads.safetensors` if it exists, else the network's file, in which RLinf stores the
    heads.

    Raises:
        CheckpointError: both files hold heads, or `rl_heads.safetensors` is damaged.
    """
    path = folder / HEADS_FILE
    network_file = weights_file(folder) or folder
    if not path.exists():
        return network_file, stored.headers
    if head_keys(stored.headers):
        raise CheckpointError(
            f"{folder} has heads twice, in {path.name} and in {network_file.name}",
            hint=f"move {path.name} away to take those in the network's file",
        )
    return path, read_headers(path)


def check_network(
    path: Path, headers: Mapping[str, TensorHeader], shapes: Mapping[str, tuple[int, ...]]
) -> None:
    """Check that stored weights have the names, shapes and dtypes of the network.

    Args:
        path: file or folder of the weights, for error messages.
        headers: of the tensors in the file, by the file's names.
        shapes: of the network's parameters, by openpi's names.

    Raises:
        CheckpointError: the weights don't fit, or have the names of RLinf's own π0.
    """
    names = network_keys(headers)
    if any(name.startswith("llm.") for name in names):
        raise CheckpointError(
            f"{path} has the weights of π0 under RLinf's own names (openpi_rlinf)",
            hint="convert it where RLinf is installed: python -m "
            "rlinf.utils.ckpt_convertor.openpi.convert --mode openpi_rlinf_to_openpi_pytorch "
            f"--input-model {path} --reference-model PI0_PYTORCH --output-model NEW "
            "--input-norm-stats STATS --output-norm-stats NEW/assets/ASSET_ID/norm_stats.json",
        )
    stored = {name: headers[key] for name, key in names.items()}
    check_fit(path, stored, shapes, hint=_fit_hint(stored, shapes))


def _fit_hint(stored: Mapping[str, TensorHeader], shapes: Mapping[str, tuple[int, ...]]) -> str:
    """Return the hint for weights that don't fit: the setting they fit with, if one is found."""
    mark = "time_mlp_in.weight"  # of π0.5; π0 has action_time_mlp_in
    if mark in stored and mark not in shapes and "action_time_mlp_in.weight" not in stored:
        return f"these are the weights of a π0.5: set {KEY}.config_name to one of pi05_..."
    if mark in shapes and mark not in stored and "action_time_mlp_in.weight" in stored:
        return f"these are the weights of a π0: set {KEY}.config_name to one of pi0_..."
    for name, size in SIZES.items():
        shapes_of_size = network_shapes(replace(size, pi05=mark in shapes))
        if shapes_of_size == {weight: header.shape for weight, header in stored.items()}:
            return f"set {KEY}.size={name}, which these weights have"
    return f"check {KEY}.config_name and size, which fix the network's shape"


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
    keys = head_keys(headers).items()
    stored = {name: headers[key] for name, key in keys if name.startswith(f"{head}.")}
    check_fit(path, stored, shapes, hint=f"move {HEADS_FILE} away to start with fresh heads")
