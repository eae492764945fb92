"""Find and check the weights of a checkpoint folder: the network's, and those of heads. No tensor
library."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from rlcore_weights.adapter_folder import ADAPTERS_CONFIG
from rlcore_weights.headers import TensorHeader, check_fit, read_headers
from rlcore_weights.layouts import StoredWeights, has_weights, stored_weights, weights_file

from rlcore.contracts.errors import CheckpointError
from rlcore_model_openpi.layout import head_keys, network_keys, network_shapes
from rlcore_model_openpi.resolved import KEY
from rlcore_model_openpi.sizes import SIZES

NETWORK_FILE, HEADS_FILE = "model.safetensors", "rl_heads.safetensors"

_CHOOSE = "set actor.model.model_path to a folder with weights of openpi, RLinf or LeRobot"
_MERGE = (
    "merge them where they were trained (peft: merge_and_unload, then save_pretrained) and set "
    "actor.model.model_path to that folder"
)


def find_weights(folder: Path) -> StoredWeights:
    """Where the weights of a checkpoint folder are.

    Raises:
        CheckpointError: there are none that this model reads; the hint says how to convert them.
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
            "weights are merged with alpha = rank, as RLinf's trainer has it",
            hint=f"move {ADAPTERS_CONFIG} away if its lora_alpha is its r, else {_MERGE}",
        )
    return stored


def _refuse_convertible(folder: Path) -> None:
    """Refuse weights that we don't read, with what makes of them some that we do."""
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
    """The file with the heads and its tensors: `rl_heads.safetensors`, or the network's, where
    RLinf stores them."""
    path, beside = folder / HEADS_FILE, weights_file(folder) or folder
    if not path.exists():
        return beside, stored.headers
    if head_keys(stored.headers):
        raise CheckpointError(
            f"{folder} has heads twice, in {path.name} and in {beside.name}",
            hint=f"move {path.name} away to take those beside the network",
        )
    return path, read_headers(path)


def check_network(
    path: Path, headers: Mapping[str, TensorHeader], shapes: Mapping[str, tuple[int, ...]]
) -> None:
    """Refuse weights that do not fit the network.

    Args:
        path: where they are, for messages.
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
    """What to do about weights that do not fit."""
    mark = "time_mlp_in.weight"  # of π0.5; π0 has action_time_mlp_in
    if mark in stored and mark not in shapes and "action_time_mlp_in.weight" not in stored:
        return f"these are the weights of a π0.5: set {KEY}.config_name to one of pi05_..."
    if mark in shapes and mark not in stored and "action_time_mlp_in.weight" in stored:
        return f"these are the weights of a π0: set {KEY}.config_name to one of pi0_..."
    for name, size in SIZES.items():
        alike = network_shapes(replace(size, pi05=mark in shapes))
        if alike == {weight: header.shape for weight, header in stored.items()}:
            return f"set {KEY}.size={name}, which these weights have"
    return f"check {KEY}.config_name and size, which fix the network's shape"


def check_head(
    path: Path,
    headers: Mapping[str, TensorHeader],
    head: str,
    shapes: Mapping[str, tuple[int, ...]],
) -> None:
    """Refuse a file whose `head` has other shapes."""
    keys = head_keys(headers).items()
    stored = {name: headers[key] for name, key in keys if name.startswith(f"{head}.")}
    check_fit(path, stored, shapes, hint=f"move {HEADS_FILE} away to start with fresh heads")
