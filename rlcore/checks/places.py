"""Folders that a run reads from or writes to: whether they can be what they are meant to be. Light;
makes nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from rlcore import hub
from rlcore.config import tree
from rlcore.config.schema import ModelConfig, RunConfig

SHOWN = 200  # characters of a place that a sentence repeats
Model = TypeVar("Model", bound=ModelConfig)


def violations(config: RunConfig) -> Iterator[str]:
    """A sentence for each place that a run could not read from, write to, or be at. What a run does
    there stands at the key (`place=` of :func:`rlcore.config.schema.key`)."""
    unasked = (None, "path", "program")
    places = [key for key in tree.walk(config) if key.place not in unasked and key.value]
    # a name in a folder that is not there yet is looked up in one that is
    name = config.runner.logger.experiment_name
    longest = f"/{max(Path(name).parts, key=len, default='')}"
    impossible = [
        *(said for key in places for said in _impossible(key.path, key.value)),
        *_impossible("runner.logger.experiment_name", longest),
    ]
    if impossible:  # the others would stumble over it
        yield from impossible
        return
    for key in places:
        there = Path(key.value).expanduser().is_dir()
        if key.place in ("read", "checkpoint"):
            if not there and not hub.is_name(key.value):  # of a name: findings
                yield f"{key.path} must be an existing folder, got {key.value!r}"
        elif key.place == "written" or not there:  # what is there is only read
            yield from _unwritable(key.path, key.value)
    inside = Path(name)
    if not inside.parts or inside.is_absolute() or ".." in inside.parts:
        yield (
            "runner.logger.experiment_name must be a name or a path below "
            f"runner.logger.log_path, got {name!r}"
        )


def found(model: Model) -> Model:
    """The model as it can be planned here: without a checkpoint that is still to be downloaded."""
    if _absent(model.model_path):
        return replace(model, model_path=None, lora_path=None)
    return replace(model, lora_path=None) if _absent(model.lora_path) else model


def findings(config: RunConfig) -> list[dict[str, str]]:
    """A row, as of a plugin's doctor, for each checkpoint that is still to be downloaded."""
    model = config.actor.model
    return [
        {
            "name": f"actor.model.{name}",
            "status": "missing",
            "detail": f"{value} is neither a folder here (nor is {hub.own_folder(value)}) nor a "
            f"model in Hugging Face's cache; actor.model.{name}=FOLDER names another one, null "
            + ("none" if name == "lora_path" else "starts from random weights"),
            "fix": f"hf download {value} --local-dir {hub.own_folder(value)}",
        }
        for name in ("model_path", "lora_path")
        if _absent(value := vars(model)[name])
    ]


def _absent(value: str | None) -> bool:
    """Whether it is a name for which nothing was found: a folder that was is absolute."""
    return value is not None and hub.is_name(value)


def _impossible(path: str, place: str) -> Iterator[str]:
    """What can be no path: too long, a NUL in it, a link to itself."""
    try:
        os.stat(os.path.expanduser(place))
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        shown = place if len(place) <= SHOWN else f"{place[:SHOWN]}... ({len(place)} characters)"
        yield f"{path} must be a folder, got {shown!r}: {reason}"


def _unwritable(path: str, place: str) -> Iterator[str]:
    """The folder itself, or the first there is above it, must take new files."""
    folder = Path(place).expanduser().absolute()
    there = next(parent for parent in (folder, *folder.parents) if parent.exists())
    if not there.is_dir():
        yield f"{path} must be a folder, got {place!r}: {there} is a file"
    elif not os.access(there, os.W_OK | os.X_OK):
        yield f"{path} must be a folder you may write to, got {place!r}: {there} is not"
