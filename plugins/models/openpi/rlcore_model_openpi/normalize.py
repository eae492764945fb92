"""Apply, fit, read and write normalisation statistics (`norm_stats.json`). Numpy only.

π0 normalises by mean and standard deviation, π0.5 by two bounds, the 1 % and 99 % quantiles:

    z-score    y = (x - mean) / (std + 1e-6)
    quantile   y = 2 (x - q01) / (q99 - q01 + 1e-6) - 1

Unnormalising is the inverse. LeRobot avoids a division by zero differently: its z-score adds 1e-8
to std when normalising and nothing when unnormalising, and q99 - q01 counts as 1e-8 where it is 0.

openpi's file format: `{"norm_stats": {"state": {"mean", "std", "q01", "q99"}, "actions": ...}}`.
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
OPENPI = 1e-6
LEROBOT = 1e-8
"""The constants with which openpi and LeRobot avoid a division by zero."""
PADDED = 1e-6
"""The largest scale of an entry that was constant: openpi's histograms make 1e-10 out of 0."""
# Fitted scales are at least this (env units): in few demonstrations an entry may hardly move, and
# dividing by almost zero would blow up its first move.
MIN_STD = 1e-2
_COPY_OR_COMPUTE = "copy the file again, or compute the statistics again"
FIELDS = ("mean", "std", "q01", "q99")


@dataclass(frozen=True)
class Formula:
    """A formula of the module docstring.

    Attributes:
        quantile: whether the bounds q01 and q99 are used instead of mean and std.
        lerobot: whether LeRobot's constants are used instead of openpi's.
    """

    quantile: bool
    lerobot: bool = False

    @property
    def fields(self) -> tuple[str, str]:
        """Names of the two statistics that the formula uses."""
        return ("q01", "q99") if self.quantile else ("mean", "std")


Z_SCORE = Formula(quantile=False)
QUANTILE = Formula(quantile=True)


@dataclass(frozen=True)
class Stats:
    """Statistics per entry, float64 `[D]` each. Those that the formula doesn't use may be None."""

    mean: np.ndarray | None = None
    std: np.ndarray | None = None
    q01: np.ndarray | None = None
    q99: np.ndarray | None = None

    @property
    def size(self) -> int:
        """D, the number of entries."""
        return next(len(values) for values in vars(self).values() if values is not None)

    def pair(self, formula: Formula) -> tuple[np.ndarray, np.ndarray]:
        """Return the two statistics that a formula uses: mean and std, or q01 and q99."""
        first, second = (getattr(self, field) for field in formula.fields)
        assert first is not None and second is not None  # read_stats refuses those without
        return first, second

    @classmethod
    def identity(cls, size: int) -> Stats:
        """Return statistics that leave values unchanged, except for the formulas' constants."""
        return cls.of_range(-np.ones(size), np.ones(size))

    @classmethod
    def of_range(cls, low: np.ndarray, high: np.ndarray) -> Stats:
        """Return statistics that map the range from `low` to `high`, `[D]` each, to [-1, 1]."""
        return cls((low + high) / 2, (high - low) / 2, low, high)

    @classmethod
    def fit(cls, values: np.ndarray) -> Stats:
        """Fit statistics of M samples `[M, D]`.

        The std and half the distance of the bounds are at least :data:`MIN_STD`; bounds that are
        closer move apart from their middle.
        """
        values = values.astype(np.float64)
        low, high = np.quantile(values, [0.01, 0.99], axis=0)
        middle = (low + high) / 2
        half = np.maximum((high - low) / 2, MIN_STD)
        std = np.maximum(values.std(axis=0), MIN_STD)
        return cls(values.mean(axis=0), std, middle - half, middle + half)


@dataclass(frozen=True)
class Normalizer:
    """Statistics of states and actions, and the formula of each.

    Attributes:
        state: None if the policy doesn't read the state and the checkpoint has no statistics of it.
    """

    state: Stats | None
    actions: Stats
    state_formula: Formula
    action_formula: Formula

    def normalize_state(self, states: np.ndarray) -> np.ndarray:
        """Normalise states `[..., S]`: float32 of the same shape; uses the first S statistics."""
        assert self.state is not None, "this policy does not read the state"
        return _normalize(states, self.state, self.state_formula)

    def normalize_actions(self, actions: np.ndarray) -> np.ndarray:
        """Normalise actions `[..., A]`: float32 of the same shape; uses the first A statistics."""
        return _normalize(actions, self.actions, self.action_formula)

    def unnormalize_actions(self, actions: np.ndarray) -> np.ndarray:
        """Unnormalise actions `[..., D]`: float32 of the same shape.

        Entries beyond the statistics are unchanged (quantile), or unnormalised with mean 0 and
        std 1 (z-score).
        """
        return _unnormalize(actions, self.actions, self.action_formula)


def _normalize(values: np.ndarray, stats: Stats, formula: Formula) -> np.ndarray:
    first, second = (statistic[: values.shape[-1]] for statistic in stats.pair(formula))
    if formula.quantile:
        result = (values - first) / _span(first, second, formula) * 2.0 - 1.0
    else:
        result = (values - first) / (second + (LEROBOT if formula.lerobot else OPENPI))
    return result.astype(np.float32)


def _unnormalize(values: np.ndarray, stats: Stats, formula: Formula) -> np.ndarray:
    size = values.shape[-1]
    first, second = stats.pair(formula)
    if formula.quantile:
        scaled = min(size, stats.size)
        low = first[:scaled]
        high = second[:scaled]
        inner = (values[..., :scaled] + 1.0) / 2.0 * _span(low, high, formula) + low
        result = np.concatenate([inner, values[..., scaled:]], axis=-1)
    else:
        extra = max(size - stats.size, 0)
        mean = np.pad(first, (0, extra))[:size]
        std = np.pad(second, (0, extra), constant_values=1.0)[:size]
        result = values * (std + (0.0 if formula.lerobot else OPENPI)) + mean
    return result.astype(np.float32)


def _span(low: np.ndarray, high: np.ndarray, formula: Formula) -> np.ndarray:
    """Return the distance of the bounds with the formula's constant, so that it is never 0."""
    if formula.lerobot:
        return np.where(high == low, LEROBOT, high - low)
    return high - low + OPENPI


# -- files ------------------------------------------------------------------------------------


def write_stats(path: Path, normalizer: Normalizer) -> None:
    """Write `norm_stats.json` to `path` and create its folders. Floats round-trip exactly."""
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
        state, actions: the formulas by which states and actions are normalised.
        state_dim, action_dim: entries of the env's state and action. `state_dim=None`: the policy
            doesn't read the state, so its statistics may be missing or malformed.

    Raises:
        CheckpointError: the file is missing or not JSON, lacks a field, or holds fields of unequal
            or too small length or with negative scales.
    """
    try:
        content = read_json(path)
    except (OSError, ValueError) as error:
        raise CheckpointError(
            f"cannot read normalisation statistics {path}: {error}", hint=_COPY_OR_COMPUTE
        ) from error
    stats = content.get("norm_stats") if isinstance(content, dict) else None
    if not isinstance(stats, dict):
        raise CheckpointError(f"{path} holds no 'norm_stats' mapping", hint=_COPY_OR_COMPUTE)
    return Normalizer(
        state=_unread(path, "state", stats, state)
        if state_dim is None
        else _parse(path, "state", stats, state, state_dim),
        actions=_parse(path, "actions", stats, actions, action_dim),
        state_formula=state,
        action_formula=actions,
    )


def find_stats(folder: Path, asset_id: str, *, strict: bool) -> Path:
    """Return the `norm_stats.json` of a checkpoint folder.

    Looks in `assets/<asset_id>/` and `<asset_id>/`; unless `strict`, the only `norm_stats.json`
    anywhere below the folder is taken too.

    Raises:
        CheckpointError: the file is missing (the message lists existing assets), or both places
            hold files with different contents.
    """
    places = (folder / "assets" / asset_id / FILE_NAME, folder / asset_id / FILE_NAME)
    if candidates := [path for path in places if path.is_file()]:
        require_one(candidates)
        return candidates[0]
    existing = sorted(folder.rglob(FILE_NAME))
    if len(existing) == 1 and not strict:
        return existing[0]
    assets = ", ".join(str(path.parent.relative_to(folder)) for path in existing) or "none"
    raise CheckpointError(
        f"{folder} has no normalisation statistics for asset {asset_id!r} (it has: {assets})",
        hint=f"put {FILE_NAME} at {folder / 'assets' / asset_id}, "
        "or set actor.model.openpi.asset_id to a folder that exists",
    )


def require_one(paths: Sequence[Path]) -> None:
    """Check that all files have the same contents, so that it doesn't matter which one is read.

    Raises:
        CheckpointError: two files differ.
    """
    first, *others = paths
    for path in others:
        if not filecmp.cmp(first, path, shallow=False):
            raise CheckpointError(
                f"{first} and {path} have different contents",
                hint="move away the one that the model was not trained with",
            )


def _unread(path: Path, name: str, stats: dict[str, Any], formula: Formula) -> Stats | None:
    """Return statistics that the policy doesn't use, to save them again; None if malformed."""
    try:
        return _parse(path, name, stats, formula, None)
    except CheckpointError:
        return None


def _parse(
    path: Path, name: str, stats: dict[str, Any], formula: Formula, entries: int | None
) -> Stats:
    entry = stats.get(name)
    if not isinstance(entry, dict):
        raise CheckpointError(f"{path} lacks statistics of {name!r}", hint=_COPY_OR_COMPUTE)
    arrays = {field: _array(path, f"{name}.{field}", entry.get(field)) for field in FIELDS}
    present = {field: array for field, array in arrays.items() if array is not None}
    return checked_stats(path, name, present, formula, entries)


def checked_stats(
    path: Path, name: str, fields: dict[str, np.ndarray], formula: Formula, entries: int | None
) -> Stats:
    """Check statistics against a formula and the env.

    There may be more statistics than the env has entries if the data was padded before they were
    computed; these must be of constant entries. A scale of 0, of an entry that was constant in the
    data, is valid: the formulas avoid the division by zero.

    Args:
        path: the file, for error messages.
        name: "state" or "actions", for error messages.
        fields: the statistics by name, float64 `[D]` each.
        formula: the formula that uses them.
        entries: the env's number of entries; None: the statistics are unused, and only fields and
            lengths are checked.

    Raises:
        CheckpointError: a field of the formula is missing, lengths are unequal or don't match the
            env, or a scale is negative.
    """
    missing = [field for field in formula.fields if field not in fields]
    if missing:
        lacking = ", ".join(f"{name}.{field}" for field in missing)
        raise CheckpointError(f"{path} lacks {lacking}", hint=_COPY_OR_COMPUTE)
    lengths = {field: len(array) for field, array in fields.items()}
    if len(set(lengths.values())) > 1:
        raise CheckpointError(
            f"{path}: lengths of {name!r} differ: {lengths}", hint=_COPY_OR_COMPUTE
        )
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
    lower = np.zeros(stats.size)
    rule = f"{name}.std must be at least 0"
    if formula.quantile:
        lower = first
        rule = f"{name}.q99 must be at least {name}.q01"
    for entry in range(entries):
        if second[entry] < lower[entry]:
            raise CheckpointError(
                f"{path}: {rule} in each of the env's {entries} entries, got {second[entry]} in "
                f"entry {entry}",
                hint=_COPY_OR_COMPUTE,
            )
    return stats


def _array(path: Path, name: str, value: Any) -> np.ndarray | None:
    if value is None:
        return None
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise CheckpointError(
            f"{path}: {name} must be a list of numbers", hint=_COPY_OR_COMPUTE
        ) from error
    if array.ndim != 1 or not np.isfinite(array).all():
        raise CheckpointError(
            f"{path}: {name} must be a list of finite numbers", hint=_COPY_OR_COMPUTE
        )
    return array
