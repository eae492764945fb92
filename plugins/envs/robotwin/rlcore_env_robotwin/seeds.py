"""Which seed of RoboTwin a trial stands for. Light.

RoboTwin draws a start from a seed, and some starts can't be solved. Published results are trained
and evaluated on seeds whose starts the expert solved. Such seeds come from a file, or the expert
looks for them: trial t is the first that it solves of the SPAN seeds from t * SPAN on. So a trial
is the same start whoever looks, in whatever order.
"""

from __future__ import annotations

import json
from pathlib import Path

from rlcore.errors import ConfigError
from rlcore_env_robotwin.settings import RoboTwinConfig

SPAN = 50
# Far apart, so that no trial's seeds are those of another.
HELDOUT = 1_000_000
TRAIN_TRIALS, HELDOUT_TRIALS = range(0, 10_000), range(HELDOUT, HELDOUT + 1_000)
KEY = "success_seeds"
LAST_SEED = 2**32 - 1  # numpy's, which RoboTwin seeds


def solved_seeds(config: RoboTwinConfig, split: str, task: str) -> list[int] | None:
    """The seeds of a split that a file names, None where the expert looks for them.

    Raises:
        ConfigError: the file can't be read, has none of this task, or shares seeds with the other
            split's.
    """
    path, other = config.train_seeds_path, config.heldout_seeds_path
    if split != "train":
        path, other = other, path
    if path is None or config.stand_ins:
        return None
    seeds = _read(path, task, f"{split}_seeds_path")
    if other is not None:
        shared = set(seeds) & set(_read(other, task, "the other split's"))
        if shared:
            raise ConfigError(
                f"train_seeds_path and heldout_seeds_path share {len(shared)} seed(s) of {task}, "
                f"e.g. {min(shared)}: evaluation would play starts of training"
            )
    return seeds


def cache_folder(config: RoboTwinConfig) -> Path:
    """Where seeds are kept that the expert found."""
    return Path(config.seeds_cache or Path.home() / ".cache" / "rlcore" / "robotwin")


def _is_seed(value: object) -> bool:
    return type(value) is int and 0 <= value <= LAST_SEED


def _read(path: str, task: str, key: str) -> list[int]:
    # needs PyYAML, which stand-ins do not
    from rlcore.reading import read_json, reason_of

    try:
        found = read_json(Path(path))
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{key}: {path} can't be read: {reason_of(error)}",
            hint=f"{key}=null lets the expert find them",
        ) from None
    if not isinstance(found, dict) or task not in found:
        has = ", ".join(list(found)[:5]) or "nothing" if isinstance(found, dict) else "no mapping"
        raise ConfigError(
            f"{key}: {path} has no seeds of task {task!r}; it has those of {has}",
            hint=f'{{"{task}": {{"{KEY}": [...]}}}} in the file; null lets the expert find them',
        )
    entry = found[task]
    seeds = entry.get(KEY) if isinstance(entry, dict) else None
    if not isinstance(seeds, list) or not seeds or not all(map(_is_seed, seeds)):
        raise ConfigError(
            f"{key}: {path} must name at least one seed of {task}, each a whole number from 0 to "
            f"{LAST_SEED}, got {json.dumps(entry)[:60]}",
            hint=f'{{"{task}": {{"{KEY}": [0, 1, 4]}}}}',
        )
    if len(set(seeds)) != len(seeds):
        raise ConfigError(f"{key}: {path} names a seed of {task} twice")
    return seeds
