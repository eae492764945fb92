"""Measure the importance of each swept key, for sweeps without a study that Optuna can evaluate.

Settings are grouped by the value of one key; a number with more than six distinct values is grouped
by quartiles of these. The importance of the key is the between-group share of the variance of
success (eta squared). Chance alone makes this share positive, so it is adjusted for the number of
groups, as adjusted R squared is, and clipped at 0:

    1 - (1 - between / total) (m - 1) / (m - g)        m settings in g groups

Interactions are not measured: keys that matter only in combination have a small share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from rlcore.utils.text import format_value
from rlcore_tools.runs.ranking import Ranked
from rlcore_tools.text import rounded

MOST_VALUES = 6  # with more distinct numbers than this, quartiles are the groups
QUARTERS = 4


@dataclass(frozen=True)
class Part:
    """Importance of a key.

    Attributes:
        key: the key.
        share: adjusted share of the variance of success, from 0 to 1; None if there is one group
            only, or no group has several settings.
        groups: `(values as text, mean success, number of settings)` of each group, by value.
    """

    key: str
    share: float | None
    groups: tuple[tuple[str, float, int], ...]


def parts(settings: Sequence[Ranked], keys: Sequence[str]) -> list[Part]:
    """Return the importance of each key, the largest share first; empty without success rates."""
    measured = [(setting.values, setting.rate.rate) for setting in settings if setting.rate]
    if not measured:
        return []
    importance = [_part([(values[key], rate) for values, rate in measured], key) for key in keys]
    return sorted(importance, key=lambda p: -1.0 if p.share is None else p.share, reverse=True)


def _part(points: Sequence[tuple[Any, float]], key: str) -> Part:
    """Return the importance of a key.

    Args:
        points: (value of the key, success rate) of each setting.
    """
    points = sorted(points, key=lambda point: _rank(point[0]))
    groups: dict[str, list[float]] = {}
    for name, (_, rate) in zip(_names([value for value, _ in points]), points, strict=True):
        groups.setdefault(name, []).append(rate)
    rates = [rate for _, rate in points]
    mean = fmean(rates)
    total = sum((rate - mean) ** 2 for rate in rates)
    between = sum(len(group) * (fmean(group) - mean) ** 2 for group in groups.values())
    share = None
    if 1 < len(groups) < len(rates):
        explained = between / total if total > 0 else 0.0
        share = max(0.0, 1 - (1 - explained) * (len(rates) - 1) / (len(rates) - len(groups)))
    group_means = tuple((name, fmean(group), len(group)) for name, group in groups.items())
    return Part(key, share, group_means)


def _rank(value: Any) -> tuple[int, Any]:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return (0, value) if is_number else (1, format_value(value))


def _names(values: Sequence[Any]) -> list[str]:
    """Return the name of the group of each value."""
    numbers = [v for v in values if isinstance(v, (int, float)) and not isinstance(v, bool)]
    distinct = sorted(set(numbers))
    if len(numbers) < len(values) or len(distinct) <= MOST_VALUES:
        return [rounded(value) for value in values]
    edges = [distinct[i * len(distinct) // QUARTERS] for i in range(QUARTERS)]
    spans = [
        [n for n in distinct if lo <= n and (hi is None or n < hi)]
        for lo, hi in zip(edges, [*edges[1:], None], strict=True)
    ]
    names = {n: f"{span[0]:.3g} to {span[-1]:.3g}" for span in spans for n in span}
    return [names[value] for value in values]
