"""Folders that a run reads from or writes to: whether they can be what they are meant to be. Light;
makes nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from rlcore.checks.limits import SIDES
from rlcore.config import tree
from rlcore.config.schema import RunConfig

WRITTEN = ("runner.logger.log_path", *(f"{side}.video_cfg.video_base_dir" for side in SIDES))
READ = ("actor.model.model_path", "rollout.model.model_path")
SHOWN = 200  # characters of a place that a sentence repeats
READ_OR_WRITTEN = ("collect.path",)  # a data set that is there is only read


def violations(config: RunConfig) -> Iterator[str]:
    """A sentence for each place that a run could not read from, write to, or be at."""
    logger = config.runner.logger
    places = {path: tree.value_of(config, path) for path in (*WRITTEN, *READ_OR_WRITTEN, *READ)}
    # a name in a folder that is not there yet is looked up in one that is
    parts = Path(logger.experiment_name).parts
    places["runner.logger.experiment_name"] = f"/{max(parts, key=len, default='')}"
    impossible = [
        sentence for path, place in places.items() if place for sentence in _impossible(path, place)
    ]
    if impossible:  # the others would stumble over it
        yield from impossible
        return
    for path in (*WRITTEN, *READ_OR_WRITTEN):
        place = tree.value_of(config, path)
        if place is not None and not (path in READ_OR_WRITTEN and Path(place).is_dir()):
            yield from _unwritable(path, place)
    for path in READ:
        place = tree.value_of(config, path)
        if place is not None and not Path(place).expanduser().is_dir():
            yield f"{path} must be an existing folder, got {place!r}"
    name = config.runner.logger.experiment_name
    inside = Path(name)
    if not inside.parts or inside.is_absolute() or ".." in inside.parts:
        yield (
            "runner.logger.experiment_name must be a name or a path below "
            f"runner.logger.log_path, got {name!r}"
        )


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
