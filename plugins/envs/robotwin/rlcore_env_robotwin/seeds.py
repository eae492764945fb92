"""Map trials to RoboTwin's seeds. Loads no simulator.

RoboTwin samples a start from a seed, and some starts can't be solved. Published results are trained
and evaluated on seeds whose starts the expert solved. Such seeds come from a file, or the expert
searches for them: trial t is the first seed that it solves of the SPAN seeds from t * SPAN on. So a
trial has the same start whichever process searches, and in any order.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rlcore.contracts.errors import ConfigError
from rlcore_env_robotwin.settings import RoboTwinConfig

SPAN = 50
# First trials of the splits, far apart so that splits share no trials.
HELDOUT = 1_000_000
VALIDATION = 2_000_000
TRAIN_TRIALS = range(0, 10_000)
HELDOUT_TRIALS = range(HELDOUT, HELDOUT + 1_000)
VALIDATION_TRIALS = range(VALIDATION, VALIDATION + 1_000)
KEY = "success_seeds"
LAST_SEED = 2**32 - 1  # the largest seed of numpy's generator


def solved_seeds(config: RoboTwinConfig, split: str, task: str) -> list[int] | None:
    """Return the seeds of a task in the file of a split; None if the expert searches for them.

    Args:
        config: settings.
        split: "train" or "heldout". Validation has no file.
        task: name of the task.

    Raises:
        ConfigError: the file can't be read, has no seeds of this task, or shares seeds with the
            file of the other split. The file of a split that `config` does not play is only used
            for this comparison: it may lack the task, or not exist.
    """
    if config.stand_ins:
        return None
    seeds = _of_split(config, split, task)
    others = _of_split(config, "heldout" if split == "train" else "train", task)
    if seeds is not None and others is not None:
        shared = set(seeds) & set(others)
        if shared:
            raise ConfigError(
                f"train_seeds_path and heldout_seeds_path share {len(shared)} seed(s) of {task}, "
                f"e.g. {min(shared)}: evaluation would play starts of training",
                hint=f"leave them out of {config.train_seeds_path} or {config.heldout_seeds_path}",
            )
    return seeds


def cache_folder(config: RoboTwinConfig) -> Path:
    """Return the folder for seeds that the expert found."""
    return Path(config.seeds_cache or Path.home() / ".cache" / "rlcore" / "robotwin")


def _is_seed(value: object) -> bool:
    return type(value) is int and 0 <= value <= LAST_SEED


def _of_split(config: RoboTwinConfig, split: str, task: str) -> list[int] | None:
    """Return the seeds of a task in a split's file.

    None if there is no file, or if another split is played and the file lacks the task.
    """
    path = config.train_seeds_path if split == "train" else config.heldout_seeds_path
    is_played = split == config.split
    if path is None or not (is_played or Path(path).is_file()):
        return None
    file = _read(path, split)
    return _seeds(file, task, path, split) if is_played or task in file else None


def _without(split: str) -> str:
    """Return the command-line override that unsets a file; only env.train has that of training."""
    if split == "train":
        return "env.train.train_seeds_path=null"
    return f"'env.*.{split}_seeds_path=null'"


def _read(path: str, split: str) -> dict[str, Any]:
    """Read the file of a split; return its entries by task."""
    key = f"{split}_seeds_path"
    # needs PyYAML, which stand-ins do not
    from rlcore.files.reading import error_reason, read_json

    try:
        content = read_json(Path(path))
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{key}: {path} can't be read: {error_reason(error)}",
            hint=f"{_without(split)} lets the expert find them",
        ) from None
    if not isinstance(content, dict):
        raise ConfigError(
            f"{key}: {path} must map tasks to seeds, got a {type(content).__name__}",
            hint=_form("TASK"),
        )
    return content


def _seeds(file: dict[str, Any], task: str, path: str, split: str) -> list[int]:
    """Return the seeds of a task in a file, after checks."""
    key = f"{split}_seeds_path"
    if task not in file:
        has = f"it has those of {', '.join(list(file)[:5])}" if file else "it names no task"
        raise ConfigError(
            f"{key}: {path} has no seeds of task {task!r}; {has}",
            hint=f"{_form(task)} in the file; {_without(split)} lets the expert find them",
        )
    entry = file[task]
    seeds = entry.get(KEY) if isinstance(entry, dict) else None
    if not isinstance(seeds, list) or not seeds or not all(map(_is_seed, seeds)):
        raise ConfigError(
            f"{key}: {path} must name at least one seed of {task}, each a whole number from 0 to "
            f"{LAST_SEED}, got {json.dumps(entry)[:60]}",
            hint=_form(task),
        )
    if len(set(seeds)) != len(seeds):
        raise ConfigError(f"{key}: {path} names a seed of {task} twice")
    return seeds


def _form(task: str) -> str:
    return f'{{"{task}": {{"{KEY}": [0, 1, 4]}}}}'
