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

SHOWN = 200  # characters of a place that a sentence repeats
Model = TypeVar("Model", bound=ModelConfig)


def violations(config: RunConfig) -> Iterator[str]:
    """A sentence for each place that a run could not read from, write to, or be at. What a run does
    there stands at the key (`place=` of :func:`rlcore.config.schema.key`)."""
    for key in schema_tree.walk(config):
        if key.place not in (None, "path", "program") and key.value:
            yield from [*_unwritable(key.path, key.value)] or _unusable(key)
    name, key_of_name = config.runner.logger.experiment_name, "runner.logger.experiment_name"
    inside = Path(name)
    # a name in a folder that is not there yet is looked up in one that is
    yield from _unwritable(key_of_name, f"/{max(inside.parts, key=len, default='')}")
    if not inside.parts or inside.is_absolute() or ".." in inside.parts or not name.isprintable():
        yield f"{key_of_name} must be a name or a path below runner.logger.log_path, got {name!r}"


def found(model: Model) -> Model:
    """The model as it can be planned here: without a checkpoint that is still to be downloaded."""
    if _absent(model.model_path):
        return replace(model, model_path=None, lora_path=None)
    return replace(model, lora_path=None) if _absent(model.lora_path) else model


def findings(config: RunConfig) -> Iterator[Row]:
    """Return a row for each checkpoint that is still to be downloaded."""
    model = config.actor.model
    for name, value, without in (
        ("model_path", model.model_path, "starts from random weights"),
        ("lora_path", model.lora_path, "none"),
    ):
        if value is not None and _absent(value):
            own = hub.own_folder(value)
            said = (
                f"{value} is neither a folder here (nor is {own}) nor a model in Hugging Face's "
                f"cache; actor.model.{name}=FOLDER names another one, null {without}"
            )
            fix = f"hf download {value} --local-dir {own}"
            yield row(f"actor.model.{name}", said, "missing", fix)


def _absent(value: str | None) -> bool:
    """Whether it is a name for which nothing was found: a folder that was is absolute."""
    return value is not None and hub.is_name(value)


def _unwritable(path: str, place: str) -> Iterator[str]:
    """Explain why a text can't be a path: too long, a NUL in it, a link to itself."""
    try:
        os.stat(os.path.expanduser(place))
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        shown = place if len(place) <= SHOWN else f"{place[:SHOWN]}... ({len(place)} characters)"
        yield f"{path} must be a folder, got {shown!r}: {reason}"


def _unusable(key: schema_tree.Key) -> Iterator[str]:
    """A folder that is read must be there, unless its name is a hub's (:func:`findings`). One that
    is written, or the first there is above it, must take new files. A data set is its reader's."""
    if key.place == "data":
        return
    folder = Path(key.value).expanduser().absolute()
    there = next(parent for parent in (folder, *folder.parents) if parent.exists())
    if key.place in ("read", "checkpoint"):
        if not folder.is_dir() and not hub.is_name(key.value):
            yield f"{key.path} must be an existing folder, got {key.value!r}"
    elif not there.is_dir():
        yield f"{key.path} must be a folder, got {key.value!r}: {there} is a file"
    elif not os.access(there, os.W_OK | os.X_OK):
        yield f"{key.path} must be a folder you may write to, got {key.value!r}: {there} is not"
