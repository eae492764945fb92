"""Check the folders that a run reads from or writes to. Light; creates nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from rlcore.checks.doctor_rows import Row, row
from rlcore.config import schema_tree
from rlcore.config.schema import ModelConfig, RunConfig
from rlcore.files import hub

SHOWN = 200  # characters of a path that a sentence shows at most
KERNEL = frozenset(("proc", "sysfs", "cgroup", "cgroup2", "devpts", "securityfs", "debugfs"))
"""Types of file systems of the kernel, which take no files of users. Others without a size may: a
tmpfs without a limit, a ramfs, and those of programs (FUSE)."""
Model = TypeVar("Model", bound=ModelConfig)


def folder_faults(config: RunConfig) -> Iterator[str]:
    """Yield a sentence for each folder that a run can't read from or write to, and for a bad name.

    Each key declares what a run does with its folder (`place=` of
    :func:`rlcore.config.schema.key`). The run's own name must be a relative path below
    `runner.logger.log_path`.
    """
    for key in schema_tree.walk(config):
        if key.place not in (None, "path", "program") and key.value:
            yield from [*_impossible_path(key.path, key.value)] or _unusable(key)
    name = config.runner.logger.experiment_name
    key_of_name = "runner.logger.experiment_name"
    relative = Path(name)
    # the log folder may not exist yet, so the longest part of the name is looked up in the root
    yield from _impossible_path(key_of_name, f"/{max(relative.parts, key=len, default='')}")
    if (
        not relative.parts
        or relative.is_absolute()
        or ".." in relative.parts
        or not name.isprintable()
    ):
        yield f"{key_of_name} must be a name or a path below runner.logger.log_path, got {name!r}"


def available(model: Model) -> Model:
    """Return the model without checkpoints that are still to be downloaded, so it can be planned.

    Without its base model the adapters (`lora_path`) are dropped too.
    """
    if _absent(model.model_path):
        return replace(model, model_path=None, lora_path=None)
    return replace(model, lora_path=None) if _absent(model.lora_path) else model


def findings(config: RunConfig) -> Iterator[Row]:
    """Yield a row for each checkpoint that is still to be downloaded."""
    model = config.actor.model
    for name, value, meaning_of_null in (
        ("model_path", model.model_path, "starts from random weights"),
        ("lora_path", model.lora_path, "none"),
    ):
        if value is not None and _absent(value):
            own_folder = hub.own_folder(value)
            detail = (
                f"{value} is neither a folder here (nor is {own_folder}) nor a model in Hugging "
                f"Face's cache; actor.model.{name}=FOLDER names another one, null {meaning_of_null}"
            )
            fix = f"hf download {value} --local-dir {own_folder}"
            yield row(f"actor.model.{name}", detail, "missing", fix)


def _absent(value: str | None) -> bool:
    """Return whether `value` is the name of a model on a hub that was not found locally.

    A name that was found has been replaced by the absolute path of its folder.
    """
    return value is not None and hub.is_name(value)


def _impossible_path(path: str, place: str) -> Iterator[str]:
    """Yield a sentence if a text can't be a path: too long, with a NUL, or a link to itself."""
    try:
        os.stat(os.path.expanduser(place))
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        short = place if len(place) <= SHOWN else f"{place[:SHOWN]}... ({len(place)} characters)"
        yield f"{path} must be a folder, got {short!r}: {reason}"


def _unusable(key: schema_tree.Key) -> Iterator[str]:
    """Yield a sentence if a folder can't be used as its key declares.

    A folder that is read must exist, unless it is a model on a hub (see :func:`findings`). A folder
    that is written must be writable, or else its nearest existing parent. Data sets are not
    checked here: the reader of their format checks them.
    """
    if key.place == "data":
        return
    folder = Path(key.value).expanduser().absolute()
    existing = next(parent for parent in (folder, *folder.parents) if parent.exists())
    if key.place in ("read", "checkpoint"):
        if not folder.is_dir() and not hub.is_name(key.value):
            yield f"{key.path} must be an existing folder, got {key.value!r}"
    elif not existing.is_dir():
        yield f"{key.path} must be a folder, got {key.value!r}: {existing} is a file"
    elif reason := _why_not_written(existing):
        yield (
            f"{key.path} must be a folder you may write to, got {key.value!r}: can't write to "
            f"{folder}: {reason}"
        )


def _why_not_written(folder: Path) -> str:
    """Return why files can't be made in an existing folder; empty if they can. Makes none."""
    if not os.access(folder, os.W_OK | os.X_OK):
        return f"permission denied in {folder}"
    system = os.statvfs(folder)
    if system.f_flag & os.ST_RDONLY:
        return f"{folder} is on a read-only file system"
    # root may write everywhere, but file systems of the kernel take no files
    kind = "" if system.f_blocks else _file_system(folder)
    return (
        f"permission denied: {folder} is of the system ({kind}), and no disk"
        if kind in KERNEL
        else ""
    )


def _file_system(folder: Path) -> str:
    """Return the type of the file system that holds an existing folder; "" where none is listed."""
    try:
        lines = Path("/proc/self/mounts").read_text(errors="replace").splitlines()
    except OSError:  # a machine without /proc has none of the kernel's file systems that we know
        return ""
    mounts = [line.split()[1:3] for line in lines]
    resolved = folder.resolve()
    above = [(point, kind) for point, kind in mounts if resolved.is_relative_to(point)]
    # of two at one point, the later one hides the earlier one, and max() returns the first
    return max(reversed(above), key=lambda mount: len(mount[0]), default=("", ""))[1]
