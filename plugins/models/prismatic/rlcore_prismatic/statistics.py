"""Choose, apply, fit, read and write statistics (`dataset_statistics.json`). Numpy only.

    { key: {"action": {mean, std, min, max, q01, q99, mask}, "proprio": {...}}, ... }

with one key per data set. Base checkpoints have the same mapping as `norm_stats` in `config.json`.
Where the mask is true, an entry x is scaled from its bounds to [-1, 1]; elsewhere it is unchanged:

    normalise      2 (x - low) / (high - low + e) - 1
    unnormalise    (y + 1) / 2 (high - low + e) + low         e = 1e-8 (OpenVLA-OFT) or 0 (OpenVLA)
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rlcore.contracts.errors import CheckpointError, did_you_mean
from rlcore.files.atomic import write_text
from rlcore.files.damaged_files import damaged_error, read_mapping

FILE_NAME = "dataset_statistics.json"
CONFIG_FILE = "config.json"
BOUNDS = {"bounds_q99": ("q01", "q99"), "bounds": ("min", "max")}
"""The statistics that serve as bounds, by the value of `action_norm`."""
# Fitted bounds are at least this far apart (env units): in few demonstrations an entry may hardly
# move, and dividing by almost zero would blow up its first move.
MIN_RANGE = 2e-2

Statistics = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Bounds:
    """Bounds of D entries, float64 `[D]`, and which of them are scaled, bool `[D]`."""

    low: np.ndarray
    high: np.ndarray
    mask: np.ndarray
    epsilon: float

    def normalize(self, values: np.ndarray) -> np.ndarray:
        """Normalise `[..., D]`: float64 of the same shape, not clipped."""
        scaled = 2 * (values - self.low) / (self.high - self.low + self.epsilon) - 1
        return np.where(self.mask, scaled, values)

    def unnormalize(self, values: np.ndarray) -> np.ndarray:
        """Unnormalise `[..., D]`: float64 of the same shape."""
        scaled = 0.5 * (values + 1) * (self.high - self.low + self.epsilon) + self.low
        return np.where(self.mask, scaled, values)


def fit(values: np.ndarray) -> dict[str, Any]:
    """Fit statistics of M samples `[M, D]`, as lists; bounds are at least MIN_RANGE apart."""
    values = values.astype(np.float64)
    statistics = {"mean": values.mean(axis=0), "std": values.std(axis=0)}
    bounds_by_names = {
        ("min", "max"): (values.min(axis=0), values.max(axis=0)),
        ("q01", "q99"): tuple(np.quantile(values, [0.01, 0.99], axis=0)),
    }
    for names, (low, high) in bounds_by_names.items():
        middle = (low + high) / 2
        half = np.maximum((high - low) / 2, MIN_RANGE / 2)
        statistics |= zip(names, (middle - half, middle + half), strict=True)
    lists: dict[str, Any] = {name: array.tolist() for name, array in statistics.items()}
    return {**lists, "mask": [True] * values.shape[1]}


def of_range(low: np.ndarray, high: np.ndarray) -> dict[str, Any]:
    """Return statistics of a model without training data, whose bounds are `low` and `high`."""
    lower = low.tolist()
    upper = high.tolist()
    return {"q01": lower, "q99": upper, "min": lower, "max": upper, "mask": [True] * len(low)}


def choose(statistics: Mapping[str, Any], key: str | None, folder: Path) -> str:
    """Return the key of the statistics to use.

    This is `key`, or `key_no_noops` (the names of LIBERO's data sets), or for `key=None` the only
    key in `dataset_statistics.json`, to which trainers write only their own data set.

    Raises:
        CheckpointError: there is no such key; the message lists the keys.
    """
    for candidate in (key, f"{key}_no_noops"):
        if key is not None and candidate in statistics:
            return str(candidate)
    trained = read_mapping(folder / FILE_NAME) if (folder / FILE_NAME).is_file() else statistics
    if key is None and len(trained) == 1:
        return next(iter(trained))
    setting = "null" if key is None else repr(key)
    guess = did_you_mean(key, statistics) if key is not None else ""
    raise CheckpointError(
        f"actor.model.unnorm_key is {setting}; {folder} has statistics for "
        f"{', '.join(sorted(statistics)) or 'nothing'}.{guess}",
        hint=f"set actor.model.unnorm_key={next(iter(trained))}"
        if len(trained) == 1
        else "set actor.model.unnorm_key to the data set that the checkpoint was last trained on",
    )


def bounds(
    statistics: Mapping[str, Any],
    key: str,
    part: str,
    *,
    kind: str,
    size: int,
    epsilon: float,
    origin: str,
) -> Bounds:
    """Return the bounds of actions or states in the statistics of one data set.

    Args:
        statistics: statistics by data set.
        key: the data set.
        part: "action" or "proprio".
        kind: a key of :data:`BOUNDS`.
        size: D, the required number of entries.
        epsilon: e of the module docstring's formulas.
        origin: where the statistics come from, for error messages.

    Raises:
        CheckpointError: they are missing, not numbers, of another length, or reversed.
    """
    entry = statistics[key].get(part) if isinstance(statistics[key], dict) else None
    if not isinstance(entry, dict):
        raise CheckpointError(f"{origin}: {key!r} has no statistics of {part!r}")
    low, high = (_numbers(entry, key, part, name, origin) for name in BOUNDS[kind])
    mask = np.asarray(entry.get("mask", [True] * len(low)), dtype=object)
    if mask.ndim == 1 and all(type(scaled) is bool for scaled in mask):
        mask = mask.astype(bool)
    lengths = {len(low), len(high), len(mask) if mask.ndim else -1}
    if lengths != {size} or mask.dtype != bool:
        raise CheckpointError(
            f"{origin}: bounds and mask of {part!r} of {key!r} must have {size} entries, got "
            f"{len(low)}, {len(high)} and {mask.size}",
            hint="check actor.model.unnorm_key, action_dim and proprio_dim",
        )
    if not (high >= low)[mask].all():
        raise CheckpointError(f"{origin}: {part!r} of {key!r} has lower bounds above upper ones")
    return Bounds(low, high, mask, epsilon)


def read(folder: Path) -> Statistics:
    """Read the statistics of a checkpoint by data set.

    Those of `dataset_statistics.json` replace those of `config.json` with the same key.

    Raises:
        CheckpointError: the checkpoint has no statistics, or a file is damaged.
    """
    statistics: Statistics = {}
    for name in (CONFIG_FILE, FILE_NAME):
        if (folder / name).is_file():
            content = read_mapping(folder / name)
            stored = content.get("norm_stats") or {} if name == CONFIG_FILE else content
            if not isinstance(stored, dict):
                raise damaged_error(folder / name, f"its norm_stats are {stored!r}, not a mapping")
            statistics |= stored
    if not statistics:
        raise CheckpointError(
            f"{folder} has no {FILE_NAME}, and no norm_stats in {CONFIG_FILE}",
            hint=f"copy {FILE_NAME} of the data set that the model was trained on to {folder}",
        )
    return statistics


def write(folder: Path, statistics: Statistics) -> None:
    """Write `dataset_statistics.json`; floats round-trip exactly."""
    write_text(folder / FILE_NAME, json.dumps(statistics, indent=2) + "\n")


def _numbers(entry: Mapping[str, Any], key: str, part: str, name: str, origin: str) -> np.ndarray:
    try:
        array = np.asarray(list(entry[name]), dtype=np.float64)
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{origin}: {part!r} of {key!r} has no list {name!r}") from error
    if array.ndim != 1 or not np.isfinite(array).all():
        raise CheckpointError(f"{origin}: {name} of {part!r} of {key!r} must be finite numbers")
    return array
