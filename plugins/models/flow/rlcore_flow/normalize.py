"""Apply and fit normalisation statistics, and check stored ones. Numpy only.

Two formulas are in use: mean and standard deviation, or two bounds, as the 1 % and 99 % quantiles:

    z-score    y = (x - mean) / (std + 1e-6)
    quantile   y = 2 (x - q01) / (q99 - q01 + 1e-6) - 1

Unnormalising is the inverse. These are openpi's constants. LeRobot avoids a division by zero
differently: its z-score adds 1e-8 to std when normalising and nothing when unnormalising, and
q99 - q01 counts as 1e-8 where it is 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rlcore.contracts.errors import CheckpointError

OPENPI = 1e-6
LEROBOT = 1e-8
"""The constants with which openpi and LeRobot avoid a division by zero."""
PADDED = 1e-6
"""The largest scale of an entry that was constant: openpi's histograms make 1e-10 out of 0."""
# Fitted scales are at least this (env units): in few demonstrations an entry may hardly move, and
# dividing by almost zero would blow up its first move.
MIN_STD = 1e-2
COPY_OR_COMPUTE = "copy the file again, or compute the statistics again"
"""Hint for damaged statistics."""
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

    def rounded(self) -> Stats:
        """Return the statistics rounded to fp32: LeRobot's folders hold no more digits."""
        values = {
            name: None if x is None else x.astype(np.float32).astype(np.float64)
            for name, x in vars(self).items()
        }
        return Stats(**values)

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
        raise CheckpointError(f"{path} lacks {lacking}", hint=COPY_OR_COMPUTE)
    lengths = {field: len(array) for field, array in fields.items()}
    if len(set(lengths.values())) > 1:
        raise CheckpointError(
            f"{path}: lengths of {name!r} differ: {lengths}", hint=COPY_OR_COMPUTE
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
                hint=COPY_OR_COMPUTE,
            )
    return stats
