"""What a checkpoint folder must hold, found out before any worker starts. No tensor library.

    model.safetensors                     network, under openpi's names
    rl_heads.safetensors                  critic and noise head, where there are any
    assets/<asset_id>/norm_stats.json     normalisation statistics
    paligemma_tokenizer.model             tokenizer of the prompt
    config.json                           settings and network size it was written with

Folders without `config.json` (published openpi checkpoints) are fine as well.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from rlcore.errors import CheckpointError
from rlcore.specs import EnvSpec
from rlcore_model_openpi.normalize import Normalizer, find_stats, read_stats
from rlcore_model_openpi.sizes import NetworkSize

CONFIG_FILE = "config.json"
WEIGHT_FILES = ("model.safetensors", "rl_heads.safetensors")
TOKENIZER_FILES = ("paligemma_tokenizer.model", "tokenizer.model")


def check_folder(folder: Path, size: NetworkSize) -> None:
    """The folder is there, its files are whole, and it was written for this network.

    Statistics are checked by :func:`load_stats`. Only headers are read, so this is quick.

    Raises:
        CheckpointError: what is missing, damaged or different.
    """
    if not folder.is_dir():
        raise CheckpointError(
            f"actor.model.model_path {str(folder)!r} is not a folder",
            hint="give the folder of a checkpoint, or null to start from random weights",
        )
    if not (folder / WEIGHT_FILES[0]).is_file():
        raise CheckpointError(
            f"{folder} holds no {WEIGHT_FILES[0]}",
            hint="set actor.model.model_path to a folder in openpi's layout",
        )
    for name in WEIGHT_FILES:
        if (folder / name).is_file():
            _check_whole(folder / name)
    find_tokenizer(folder)
    _check_written_size(folder / CONFIG_FILE, size)


def find_tokenizer(folder: Path) -> Path:
    """The tokenizer file of a checkpoint; CheckpointError with its names when there is none."""
    for place in (folder, folder / "assets"):
        for name in TOKENIZER_FILES:
            if (place / name).is_file():
                return place / name
    raise CheckpointError(
        f"{folder} holds no tokenizer ({' or '.join(TOKENIZER_FILES)})",
        hint=f"copy PaliGemma's tokenizer file to {folder / TOKENIZER_FILES[0]}",
    )


def load_stats(
    folder: Path, env_spec: EnvSpec, *, asset_id: str | None, default_id: str, quantile: bool
) -> Normalizer:
    """Statistics of a checkpoint, long enough for the env.

    Args:
        asset_id: the folder asked for; None: `default_id`, or the only one there is.

    Raises:
        CheckpointError: missing, damaged, or of another robot.
    """
    return read_stats(
        find_stats(folder, asset_id or default_id, strict=asset_id is not None),
        quantile=quantile,
        state_dim=env_spec.state_dim,
        action_dim=env_spec.action_dim,
    )


def _check_whole(path: Path) -> None:
    """A safetensors file is as long as its header says: length (8 bytes), header, tensors."""
    actual = path.stat().st_size
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if length > actual:
                raise ValueError(f"its header alone should have {length} bytes")
            header = json.loads(file.read(length))
        ends = [entry["data_offsets"][1] for name, entry in header.items() if name[:2] != "__"]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _damaged(path, str(error)) from error
    expected = 8 + length + max(ends, default=0)
    if actual != expected:
        raise _damaged(path, f"{actual} bytes long, its header says {expected}")


def _damaged(path: Path, reason: str) -> CheckpointError:
    return CheckpointError(
        f"{path} is damaged or incomplete ({reason})", hint="copy or download it again"
    )


def _check_written_size(path: Path, size: NetworkSize) -> None:
    """Compare with the size in our `config.json`, if there is one."""
    if not path.is_file():
        return
    try:
        content = json.loads(path.read_text())
    except ValueError as error:
        raise _damaged(path, str(error)) from error
    written = content.get("size") if isinstance(content, dict) else None
    if not isinstance(written, dict):
        return  # another system's config.json
    different = [
        f"{name} {written.get(name)!r} (asked: {value!r})"
        for name, value in asdict(size).items()
        if written.get(name) != value
    ]
    if different:
        raise CheckpointError(
            f"{path.parent} was written with another network: {', '.join(different)}",
            hint=f"use its settings: the keys of actor.model.openpi stand in {path}",
        )
