"""Normalisation statistics: apply, fit, read and write `norm_stats.json`. Numpy only.

π0 scales by mean and standard deviation, π0.5 by two bounds, the 1 % and 99 % quantiles:

    z-score    y = (x - mean) / (std + 1e-6)
    quantile   y = 2 (x - q01) / (q99 - q01 + 1e-6) - 1

and back by the inverse. LeRobot has other constants against a division by zero: in the z-score 1e-8
on the way in and nothing on the way back, and a span of the bounds that is 0 counts as 1e-8.

File format of openpi: `{"norm_stats": {"state": {"mean", "std", "q01", "q99"}, "actions": ...}}`.
"""

from __future__ import annotations

import filecmp
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rlcore.contracts.errors import CheckpointError
from rlcore.files.reading import read_json

FILE_NAME = "norm_stats.json"
OPENPI, LEROBOT = 1e-6, 1e-8
"""Constants against a division by zero."""
PADDED = 1e-6
"""The largest scale of an entry that never moved: openpi's histograms leave 1e-10 of 0."""
# Fitted scales are at least this (env units): in few demonstrations an entry may hardly move, and
# dividing by almost zero would blow up its first move.
MIN_STD = 1e-2
_ANEW = "copy the file again, or compute the statistics anew"
FIELDS = ("mean", "std", "q01", "q99")


@dataclass(frozen=True)
class Formula:
    """How a number is scaled.

    Attributes:
        quantile: by the two bounds, not by mean and std.
        lerobot: with LeRobot's constants, not openpi's.
    """

    quantile: bool
    lerobot: bool = False

    @property
    def fields(self) -> tuple[str, str]:
        """The statistics that it takes."""
        return ("q01", "q99") if self.quantile else ("mean", "std")


Z_SCORE, QUANTILE = Formula(quantile=False), Formula(quantile=True)


@dataclass(frozen=True)
class Stats:
    """Statistics per entry, float64 `[D]` each; a file may hold only those of its formula."""

    mean: np.ndarray | None = None
    std: np.ndarray | None = None
    q01: np.ndarray | None = None
    q99: np.ndarray | None = None

    @property
    def size(self) -> int:
        """D."""
        return next(len(values) for values in vars(self).values() if values is not None)

    def pair(self, formula: Formula) -> tuple[np.ndarray, np.ndarray]:
        """The two statistics of a formula: mean and std, or the bounds."""
        first, second = (getattr(self, field) for field in formula.fields)
        assert first is not None and second is not None  # read_stats refuses those without
        return first, second

    @classmethod
    def identity(cls, size: int) -> Stats:
        """Statistics that leave values as they are, up to the formulas' constants."""
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
    """Statistics of states and actions, and the formula of each.

    Attributes:
        state: None where the policy does not read the state and the checkpoint has no statistics.
    """

    state: Stats | None
    actions: Stats
    state_formula: Formula
    action_formula: Formula

    @classmethod
    def identity(cls, state_dim: int, action_dim: int, formula: Formula) -> Normalizer:
        """For a model from scratch."""
        return cls(Stats.identity(state_dim), Stats.identity(action_dim), formula, formula)

    def normalize_state(self, states: np.ndarray) -> np.ndarray:
        """`[..., S]` -> float32 of the same shape; statistics may be longer than S."""
        assert self.state is not None, "this policy does not read the state"
        return _normalize(states, self.state, self.state_formula)

    def normalize_actions(self, actions: np.ndarray) -> np.ndarray:
        """`[..., A]` -> float32 of the same shape."""
        return _normalize(actions, self.actions, self.action_formula)

    def unnormalize_actions(self, actions: np.ndarray) -> np.ndarray:
        """`[..., D]` -> float32; entries beyond the statistics are unchanged (quantile), or scaled
        with mean 0 and std 1 (z-score)."""
        return _unnormalize(actions, self.actions, self.action_formula)


def _normalize(values: np.ndarray, stats: Stats, formula: Formula) -> np.ndarray:
    first, second = (each[: values.shape[-1]] for each in stats.pair(formula))
    if formula.quantile:
        result = (values - first) / _span(first, second, formula) * 2.0 - 1.0
    else:
        result = (values - first) / (second + (LEROBOT if formula.lerobot else OPENPI))
    return result.astype(np.float32)


def _unnormalize(values: np.ndarray, stats: Stats, formula: Formula) -> np.ndarray:
    size = values.shape[-1]
    first, second = stats.pair(formula)
    if formula.quantile:
        known = min(size, stats.size)
        first, second = first[:known], second[:known]
        inner = (values[..., :known] + 1.0) / 2.0 * _span(first, second, formula) + first
        result = np.concatenate([inner, values[..., known:]], axis=-1)
    else:
        extra = max(size - stats.size, 0)
        mean = np.pad(first, (0, extra))[:size]
        std = np.pad(second, (0, extra), constant_values=1.0)[:size]
        result = values * (std + (0.0 if formula.lerobot else OPENPI)) + mean
    return result.astype(np.float32)


def _span(low: np.ndarray, high: np.ndarray, formula: Formula) -> np.ndarray:
    """The distance of the bounds, never 0."""
    if formula.lerobot:
        return np.where(high == low, LEROBOT, high - low)
    return high - low + OPENPI


# -- files ------------------------------------------------------------------------------------


def write_stats(path: Path, normalizer: Normalizer) -> None:
    """Write `norm_stats.json` at `path`; folders are made. Floats round-trip exactly."""
    path.parent.mkdir(parents=True, exist_ok=True)
    both = {"state": normalizer.state, "actions": normalizer.actions}
    stats = {
        name: {field: None if x is None else x.tolist() for field, x in vars(values).items()}
        for name, values in both.items()
        if values is not None
    }
    path.write_text(json.dumps({"norm_stats": stats}, indent=2) + "\n")


def read_stats(
    path: Path, state: Formula, actions: Formula, *, state_dim: int | None, action_dim: int
) -> Normalizer:
    """Read `norm_stats.json`.

    Args:
        path: the file.
        state, actions: how they are scaled.
        state_dim, action_dim: entries of the env. No state_dim: the policy does not read the state,
            so its statistics may be missing, or anything.

    Raises:
        CheckpointError: missing, not JSON, lacking a field, of unequal or too small length.
    """
    try:
        content = read_json(path)
    except (OSError, ValueError) as error:
        raise CheckpointError(
            f"cannot read normalisation statistics {path}: {error}", hint=_ANEW
        ) from error
    stats = content.get("norm_stats") if isinstance(content, dict) else None
    if not isinstance(stats, dict):
        raise CheckpointError(f"{path} holds no 'norm_stats' mapping", hint=_ANEW)
    return Normalizer(
        state=_unread(path, "state", stats, state)
        if state_dim is None
        else _parse(path, "state", stats, state, state_dim),
        actions=_parse(path, "actions", stats, actions, action_dim),
        state_formula=state,
        action_formula=actions,
    )


def find_stats(folder: Path, asset_id: str, *, strict: bool) -> Path:
    """The statistics of a checkpoint: `assets/<asset_id>/`, `<asset_id>/`, or, unless `strict`,
    the only `norm_stats.json` below the folder. CheckpointError lists what there is."""
    places = (folder / "assets" / asset_id / FILE_NAME, folder / asset_id / FILE_NAME)
    if candidates := [path for path in places if path.is_file()]:
        require_one(candidates)
        return candidates[0]
    found = sorted(folder.rglob(FILE_NAME))
    if len(found) == 1 and not strict:
        return found[0]
    there = ", ".join(str(path.parent.relative_to(folder)) for path in found) or "none"
    raise CheckpointError(
        f"{folder} has no normalisation statistics for asset {asset_id!r} (it has: {there})",
        hint=f"put {FILE_NAME} at {folder / 'assets' / asset_id}, "
        "or set actor.model.openpi.asset_id to a folder that exists",
    )


def require_one(paths: Sequence[Path]) -> None:
    """Refuse files with unlike contents that are looked for in several places: which is meant?"""
    first, *others = paths
    for other in others:
        if not filecmp.cmp(first, other, shallow=False):
            raise CheckpointError(
                f"{first} and {other} have unlike contents",
                hint="move away the one that the model was not trained with",
            )


def _unread(path: Path, name: str, stats: dict[str, Any], formula: Formula) -> Stats | None:
    """Statistics that nothing reads: kept for the next file if they are whole."""
    try:
        return _parse(path, name, stats, formula, None)
    except CheckpointError:
        return None


def _parse(
    path: Path, name: str, stats: dict[str, Any], formula: Formula, entries: int | None
) -> Stats:
    entry = stats.get(name)
    if not isinstance(entry, dict):
        raise CheckpointError(f"{path} lacks statistics of {name!r}", hint=_ANEW)
    arrays = {field: _array(path, f"{name}.{field}", entry.get(field)) for field in FIELDS}
    present = {field: array for field, array in arrays.items() if array is not None}
    return checked_stats(path, name, present, formula, entries)


def checked_stats(
    path: Path, name: str, fields: dict[str, np.ndarray], formula: Formula, entries: int | None
) -> Stats:
    """Statistics of `name` in `path`, fit for so many entries of the env (None: nobody reads them).
    Further ones may be there of data that was padded before it was measured: they never moved.

    Raises:
        CheckpointError: a field of the formula is missing, lengths are unequal or not the env's, or
            a scale is negative. One that is 0 is an entry that never moved, which the formulas
            allow.
    """
    missing = [field for field in formula.fields if field not in fields]
    if missing:
        lacking = ", ".join(f"{name}.{field}" for field in missing)
        raise CheckpointError(f"{path} lacks {lacking}", hint=_ANEW)
    lengths = {field: len(array) for field, array in fields.items()}
    if len(set(lengths.values())) > 1:
        raise CheckpointError(f"{path}: lengths of {name!r} differ: {lengths}", hint=_ANEW)
    stats = Stats(**fields)
    if entries is None:
        return stats
    first, second = stats.pair(formula)
    span = np.abs(second - first if formula.quantile else second)
    if stats.size < entries or (span[entries:] > PADDED).any():
        raise CheckpointError(
            f"{path}: {name!r} has {stats.size} entries, the env has {entries}",
            hint="the checkpoint was made for another robot; choose another model_path",
        )
    low, words = (
        (first, f"{name}.q99 must be at least {name}.q01")
        if formula.quantile
        else (np.zeros(stats.size), f"{name}.std must be at least 0")
    )
    for entry in range(entries):
        if second[entry] < low[entry]:
            raise CheckpointError(
                f"{path}: {words} in each of the env's {entries} entries, got {second[entry]} in "
                f"entry {entry}",
                hint=_ANEW,
            )
    return stats


def _array(path: Path, name: str, value: Any) -> np.ndarray | None:
    if value is None:
        return None
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise CheckpointError(f"{path}: {name} must be a list of numbers", hint=_ANEW) from error
    if array.ndim != 1 or not np.isfinite(array).all():
        raise CheckpointError(f"{path}: {name} must be a list of finite numbers", hint=_ANEW)
    return array
