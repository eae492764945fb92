"""How much each swept key decided: a simple measure, for sweeps that no search has made.

For one key, settings are put together by its value, numbers with more than six values by quarters.
The share of the variance of success between these groups is what the key explains by itself; as
chance alone explains some too, it is adjusted for the number of groups,

    1 - (1 - between / all) (m - 1) / (m - g)        m settings in g groups, at least 0

Keys that matter only together show little here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from rlcore.terminal.text import written
from rlcore_tools.runs.settings import Setting
from rlcore_tools.text import rounded

MOST_VALUES, QUARTERS = 6, 4  # of a number


@dataclass(frozen=True)
class Part:
    """What a key explains.

    Attributes:
        key: which.
        share: of the variance of success, from 0 to 1; None where settings are too few to tell.
        groups: `(values, mean success, settings)` each.
    """

    key: str
    share: float | None
    groups: tuple[tuple[str, float, int], ...]


def parts(settings: Sequence[Setting], keys: Sequence[str]) -> list[Part]:
    """Of each key, what explains most first."""
    measured = [one for one in settings if one.rate is not None]
    found = [_part(measured, key) for key in keys] if measured else []
    return sorted(found, key=lambda part: -1.0 if part.share is None else part.share, reverse=True)


def _part(settings: Sequence[Setting], key: str) -> Part:
    groups: dict[str, list[float]] = {}
    names = _names([one.values[key] for one in settings])
    for one, name in zip(settings, names, strict=True):
        groups.setdefault(name, []).append(one.rate.rate if one.rate else 0.0)
    rates = [rate for group in groups.values() for rate in group]
    mean, m, g = fmean(rates), len(rates), len(groups)
    whole = sum((rate - mean) ** 2 for rate in rates)
    between = sum(len(group) * (fmean(group) - mean) ** 2 for group in groups.values())
    share = None
    if 1 < g < m:
        explained = between / whole if whole > 0 else 0.0
        share = max(0.0, 1 - (1 - explained) * (m - 1) / (m - g))
    first = {name: one.values[key] for one, name in reversed([*zip(settings, names, strict=True)])}
    order = sorted(groups, key=lambda name: _rank(first[name]))
    shown = tuple((name, fmean(groups[name]), len(groups[name])) for name in order)
    return Part(key, share, shown)


def _rank(value: Any) -> tuple[int, Any]:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return (0, value) if is_number else (1, written(value))


def _names(values: Sequence[Any]) -> list[str]:
    """The group of each value."""
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
