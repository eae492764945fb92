"""Checkpoints on disk: the policy, the optimizer and the counters of a run. No pickle.

    checkpoints/
      latest                    name of the newest complete checkpoint
      step_000010/
        actor/                  what the policy's `save_pretrained` wrote
        optimizer.safetensors   tensors of the optimizer state
        state.json              the rest of it, the run's own state, sizes of all files

A checkpoint is written under a temporary name, flushed and renamed: it is whole or not there.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlcore.errors import CheckpointError
from rlcore.track.files import replacing_folder, write_text
from rlcore.track.tensors import flatten_tensors, unflatten_tensors

FORMAT = "rlcore-checkpoint"
FORMAT_VERSION = 1
POLICY, OPTIMIZER, STATE, LATEST = "actor", "optimizer.safetensors", "state.json", "latest"
PREFIX = "step_"


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint read back.

    Attributes:
        path: its folder.
        step: policy updates done.
        policy_path: the folder to load the policy from (`actor.model.model_path`).
        optimizer: the optimizer state as it was given, tensors on the CPU; None if none was.
        state: the run's own state as it was given.
    """

    path: Path
    step: int
    policy_path: Path
    optimizer: Any
    state: dict[str, Any]


def save_checkpoint(
    folder: Path,
    step: int,
    *,
    save_policy: Callable[[Path], object],
    optimizer: Any | None = None,
    state: Mapping[str, Any] | None = None,
) -> Path:
    """Write `folder/step_NNNNNN/` and make it `latest`; an older one of that step is superseded.

    Args:
        folder: the run's `checkpoints/`.
        step: policy updates done.
        save_policy: writes the policy into the folder it is given (`save_pretrained`, wherever
            the policy lives).
        optimizer: a state dict: tensors and JSON values in dicts, lists and tuples, nested.
        state: JSON values: counters, history, generator keys.

    Raises:
        TypeError: a value that is neither a tensor nor JSON.
    """
    target = folder / f"{PREFIX}{step:06d}"
    with replacing_folder(target) as partial:
        (partial / POLICY).mkdir()
        save_policy(partial / POLICY)
        plain = None if optimizer is None else _save_tensors(optimizer, partial / OPTIMIZER)
        text = json.dumps(
            {
                "format": FORMAT,
                "version": FORMAT_VERSION,
                "step": step,
                "state": dict(state or {}),
                "optimizer": plain,
                "files": _sizes(partial),
            },
            indent=1,
        )
        (partial / STATE).write_text(text, encoding="utf-8")
    write_text(folder / LATEST, target.name + "\n")
    return target


def load_checkpoint(path: str | Path) -> Checkpoint:
    """Read a checkpoint; the policy itself is loaded by its model from `policy_path`.

    Args:
        path: a checkpoint's folder, or a `checkpoints/` folder or run, of which the latest is
            taken.

    Raises:
        CheckpointError: missing, incomplete, damaged, or not one of ours.
    """
    found = find_checkpoint(Path(path))
    facts = _read_facts(found / STATE)
    _check_sizes(found, facts["files"])
    plain = facts["optimizer"]
    return Checkpoint(
        path=found,
        step=facts["step"],
        policy_path=found / POLICY,
        optimizer=None if plain is None else _load_tensors(plain, found / OPTIMIZER),
        state=facts["state"],
    )


def find_checkpoint(path: Path) -> Path:
    """The checkpoint meant by `path`: itself, or the latest of a `checkpoints/` folder or run."""
    if (path / STATE).is_file():
        return path
    for folder in (path, path / "checkpoints"):
        if (folder / LATEST).is_file():
            named = folder / (folder / LATEST).read_text(encoding="utf-8").strip()
            if (named / STATE).is_file():
                return named
            raise CheckpointError(f"{folder / LATEST} names {named.name}, which is not there")
    if not path.exists():
        raise CheckpointError(f"there is no checkpoint at {path}")
    inside = ", ".join(sorted(entry.name for entry in path.iterdir())[:5]) if path.is_dir() else ""
    raise CheckpointError(
        f"{path} is not a checkpoint of rlcore: it has neither {STATE} nor {LATEST}"
        + (f" but {inside}" if inside else ""),
        hint="give a folder like <run>/checkpoints/step_000010, or the run's folder",
    )


def keep_last(folder: Path, count: int) -> list[Path]:
    """Remove all but the newest `count` checkpoints; the one `latest` names always stays.

    Returns:
        The folders removed.
    """
    if count < 1:
        raise ValueError(f"at least one checkpoint must stay, got {count}")
    latest = (folder / LATEST).read_text(encoding="utf-8").strip()
    steps = sorted(folder.glob(f"{PREFIX}*"), key=lambda one: int(one.name[len(PREFIX) :]))
    removed = [one for one in steps[:-count] if one.name != latest]
    for one in removed:
        shutil.rmtree(one)
    return removed


# -- the parts of a checkpoint --------------------------------------------------------------------


def _save_tensors(tree: Any, path: Path) -> Any:
    from safetensors.torch import save_file

    tensors, plain = flatten_tensors(tree)
    save_file(tensors, path)
    return plain


def _load_tensors(plain: Any, path: Path) -> Any:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return unflatten_tensors(load_file(path), plain)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{path} is damaged: {error}") from error
    except KeyError as error:
        raise CheckpointError(f"{path} lacks the tensor {error}") from error


def _sizes(folder: Path) -> dict[str, int]:
    files = (file for file in sorted(folder.rglob("*")) if file.is_file())
    return {file.relative_to(folder).as_posix(): file.stat().st_size for file in files}


def _check_sizes(folder: Path, sizes: Mapping[str, int]) -> None:
    for name, size in sizes.items():
        file = folder / name
        if not file.is_file():
            raise CheckpointError(f"{folder} is incomplete: {name} is missing")
        if file.stat().st_size != size:
            raise CheckpointError(
                f"{file} is damaged: {file.stat().st_size} bytes instead of {size}"
            )


def _read_facts(path: Path) -> dict[str, Any]:
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise CheckpointError(f"{path} is damaged: {error}") from error
    if not isinstance(facts, dict) or "format" not in facts or facts["format"] != FORMAT:
        raise CheckpointError(f"{path.parent} is not a checkpoint of rlcore")
    if facts["version"] != FORMAT_VERSION:
        raise CheckpointError(
            f"{path.parent} has checkpoint format {facts['version']}, "
            f"this rlcore reads {FORMAT_VERSION}"
        )
    return facts
