"""Normalisation statistics: apply, fit, read and write `norm_stats.json`. Numpy only.

π0 scales by mean and standard deviation, π0.5 by the 1 % and 99 % quantiles:

    z-score    y = (x - mean) / (std + 1e-6)
    quantile   y = 2 (x - q01) / (q99 - q01 + 1e-6) - 1

File format of openpi: `{"norm_stats": {"state": {"mean", "std", "q01", "q99"}, "actions": ...}}`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rlcore.errors import CheckpointError
from rlcore.reading import read_json

FILE_NAME = "norm_stats.json"
_EPSILON = 1e-6
# Fitted scales are at least this (env units): in few demonstrations an entry may hardly move, and
# dividing by almost zero would blow up its first move.
MIN_STD = 1e-2
_FIELDS = ("mean", "std", "q01", "q99")


@dataclass(frozen=True)
class Stats:
    """Statistics per entry, float64 `[D]` each; z-score files may lack quantiles."""

    mean: np.ndarray
    std: np.ndarray
    q01: np.ndarray | None = None
    q99: np.ndarray | None = None

    @property
    def size(self) -> int:
        return len(self.mean)

    @property
    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """`q01` and `q99` of statistics that have them."""
        assert self.q01 is not None and self.q99 is not None  # read_stats refuses those without
        return self.q01, self.q99

    @classmethod
    def identity(cls, size: int) -> Stats:
        """Statistics that leave values as they are, up to the formulas' epsilon."""
        ones = np.ones(size)
        return cls(0 * ones, ones, -ones, ones)

    @classmethod
    def fit(cls, values: np.ndarray) -> Stats:
        """Statistics of `[M, D]`, with scales of at least :data:`MIN_STD`."""
        values = values.astype(np.float64)
        low, high = np.quantile(values, [0.01, 0.99], axis=0)
        middle, half = (low + high) / 2, np.maximum((high - low) / 2, MIN_STD)
        std = np.maximum(values.std(axis=0), MIN_STD)
        return cls(values.mean(axis=0), std, middle - half, middle + half)


@dataclass(frozen=True)
class Normalizer:
    """Statistics of states and actions, and which of the two formulas applies."""

    state: Stats
    actions: Stats
    quantile: bool

    @classmethod
    def identity(cls, state_dim: int, action_dim: int, *, quantile: bool) -> Normalizer:
        """For a model from scratch."""
        return cls(Stats.identity(state_dim), Stats.identity(action_dim), quantile)

    def normalize_state(self, states: np.ndarray) -> np.ndarray:
        """`[..., S]` -> float32 of the same shape; statistics may be longer than S."""
        return _normalize(states, self.state, self.quantile)

    def normalize_actions(self, actions: np.ndarray) -> np.ndarray:
        """`[..., A]` -> float32 of the same shape."""
        return _normalize(actions, self.actions, self.quantile)

    def unnormalize_actions(self, actions: np.ndarray) -> np.ndarray:
        """`[..., D]` -> float32; entries beyond the statistics are unchanged (quantile), or scaled
        with mean 0 and std 1 (z-score)."""
        return _unnormalize(actions, self.actions, self.quantile)


def _normalize(values: np.ndarray, stats: Stats, quantile: bool) -> np.ndarray:
    size = values.shape[-1]
    if quantile:
        low, high = (bound[:size] for bound in stats.bounds)
        result = (values - low) / (high - low + _EPSILON) * 2.0 - 1.0
    else:
        result = (values - stats.mean[:size]) / (stats.std[:size] + _EPSILON)
    return result.astype(np.float32)


def _unnormalize(values: np.ndarray, stats: Stats, quantile: bool) -> np.ndarray:
    size = values.shape[-1]
    if quantile:
        known = min(size, stats.size)
        low, high = (bound[:known] for bound in stats.bounds)
        inner = (values[..., :known] + 1.0) / 2.0 * (high - low + _EPSILON) + low
        result = np.concatenate([inner, values[..., known:]], axis=-1)
    else:
        extra = max(size - stats.size, 0)
        mean = np.pad(stats.mean, (0, extra))[:size]
        std = np.pad(stats.std, (0, extra), constant_values=1.0)[:size]
        result = values * (std + _EPSILON) + mean
    return result.astype(np.float32)


# -- files ------------------------------------------------------------------------------------


def write_stats(path: Path, normalizer: Normalizer) -> None:
    """Write `norm_stats.json` at `path`; folders are made. Floats round-trip exactly."""
    path.parent.mkdir(parents=True, exist_ok=True)
    both = {"state": normalizer.state, "actions": normalizer.actions}
    stats = {
        name: {field: _as_list(vars(values)[field]) for field in _FIELDS}
        for name, values in both.items()
    }
    path.write_text(json.dumps({"norm_stats": stats}, indent=2) + "\n")


def read_stats(path: Path, *, quantile: bool, state_dim: int, action_dim: int) -> Normalizer:
    """Read `norm_stats.json`.

    Args:
        path: the file.
        quantile: whether quantiles are needed.
        state_dim, action_dim: least lengths; longer statistics are cut when applied.

    Raises:
        CheckpointError: missing, not JSON, lacking a field, of unequal or too small length.
    """
    try:
        content = read_json(path)
    except (OSError, ValueError) as error:
        raise CheckpointError(f"cannot read normalisation statistics {path}: {error}") from error
    stats = content.get("norm_stats") if isinstance(content, dict) else None
    if not isinstance(stats, dict):
        raise CheckpointError(f"{path} holds no 'norm_stats' mapping")
    needed = _FIELDS if quantile else ("mean", "std")
    return Normalizer(
        state=_parse(path, "state", stats, needed, state_dim),
        actions=_parse(path, "actions", stats, needed, action_dim),
        quantile=quantile,
    )


def find_stats(folder: Path, asset_id: str, *, strict: bool) -> Path:
    """The statistics of a checkpoint: `assets/<asset_id>/`, `<asset_id>/`, or, unless `strict`,
    the only `norm_stats.json` below the folder. CheckpointError lists what there is."""
    for candidate in (folder / "assets" / asset_id, folder / asset_id):
        if (candidate / FILE_NAME).is_file():
            return candidate / FILE_NAME
    found = sorted(folder.rglob(FILE_NAME))
    if len(found) == 1 and not strict:
        return found[0]
    there = ", ".join(str(path.parent.relative_to(folder)) for path in found) or "none"
    raise CheckpointError(
        f"{folder} has no normalisation statistics for asset {asset_id!r} (it has: {there})",
        hint=f"put {FILE_NAME} at {folder / 'assets' / asset_id}, "
        "or set actor.model.openpi.asset_id to a folder that exists",
    )


def _parse(
    path: Path, name: str, stats: dict[str, Any], needed: Sequence[str], least: int
) -> Stats:
    entry = stats.get(name)
    if not isinstance(entry, dict):
        raise CheckpointError(f"{path} lacks statistics of {name!r}")
    arrays = {field: _array(path, f"{name}.{field}", entry.get(field)) for field in _FIELDS}
    present = {field: array for field, array in arrays.items() if array is not None}
    missing = [field for field in needed if field not in present]
    if missing:
        raise CheckpointError(f"{path} lacks {', '.join(f'{name}.{field}' for field in missing)}")
    lengths = {field: len(array) for field, array in present.items()}
    if len(set(lengths.values())) > 1:
        raise CheckpointError(f"{path}: lengths of {name!r} differ: {lengths}")
    if lengths["mean"] < least:
        raise CheckpointError(
            f"{path}: {name!r} has {lengths['mean']} entries, the env has {least}",
            hint="the checkpoint was made for another robot; choose another model_path",
        )
    parsed = Stats(**present)
    _check_scales(path, name, parsed, needed, least)
    return parsed


def _check_scales(path: Path, name: str, stats: Stats, needed: Sequence[str], used: int) -> None:
    """The env's entries are divided by their scale, so it must be positive; others don't matter."""
    if stats.q01 is not None and stats.q99 is not None and "q01" in needed:
        low, high, words = stats.q01, stats.q99, f"{name}.q99 must be more than {name}.q01"
    else:
        low, high, words = np.zeros(stats.size), stats.std, f"{name}.std must be more than 0"
    for entry in range(used):
        if not high[entry] > low[entry]:
            raise CheckpointError(
                f"{path}: {words} in each of the env's {used} entries, got {high[entry]} in "
                f"entry {entry}",
                hint="compute the statistics from data in which this entry varies",
            )


def _array(path: Path, name: str, value: Any) -> np.ndarray | None:
    if value is None:
        return None
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise CheckpointError(f"{path}: {name} must be a list of numbers") from error
    if array.ndim != 1 or not np.isfinite(array).all():
        raise CheckpointError(f"{path}: {name} must be a list of finite numbers")
    return array


def _as_list(values: np.ndarray | None) -> list[float] | None:
    return None if values is None else values.tolist()
