"""Compute success rates before and after training, per task, per group and over all episodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import NamedTuple

from rlcore.runs.statistics import (
    Difference,
    Interval,
    SuccessRate,
    paired_difference,
    success_rate,
    wilson,
)
from rlcore.runs.tables import EpisodeResult, comparable, success_by_start, success_rows

ALL_EPISODES = "all episodes"


@dataclass(frozen=True)
class Gain:
    """Success before and after training.

    Attributes:
        label: name of the task or group, or :data:`ALL_EPISODES`.
        before, after: rates with Wilson intervals; None if that evaluation is missing.
        difference: after - before with its paired interval; None if an evaluation is missing, or
            if they have different starts or incomparable protocols.
        gained: episodes that failed before and succeed after; 0 if `difference` is None.
        lost: episodes that succeeded before and fail after; 0 if `difference` is None.
    """

    label: str
    before: SuccessRate | None
    after: SuccessRate | None
    difference: Difference | None = None
    gained: int = 0
    lost: int = 0


def gain(
    before: Sequence[EpisodeResult] | None,
    after: Sequence[EpisodeResult] | None,
    label: str = ALL_EPISODES,
) -> Gain:
    """Compare all episodes of two evaluations; None or an empty one counts as missing."""
    first = success_by_start(before) if before else {}
    last = success_by_start(after) if after else {}
    rates = Gain(
        label,
        before=success_rate([*first.values()]) if first else None,
        after=success_rate([*last.values()]) if last else None,
    )
    if not first or first.keys() != last.keys() or not comparable(before or (), after or ()):
        return rates
    starts = [zip(passes, last[start], strict=True) for start, passes in first.items()]
    episodes = [*chain.from_iterable(starts)]  # (before, after): k-th passes of one start
    return replace(
        rates,
        difference=paired_difference(first, last),
        gained=sum(won and not won_before for won_before, won in episodes),
        lost=sum(won_before and not won for won_before, won in episodes),
    )


def gains_by_task(
    before: Sequence[EpisodeResult] | None, after: Sequence[EpisodeResult] | None
) -> list[Gain]:
    """Return the gain of each task, sorted by name."""
    tasks = sorted({result.task for side in (before, after) for result in side or ()})
    return gains_by_group(before, after, {task: (task,) for task in tasks})


def gains_by_group(
    before: Sequence[EpisodeResult] | None,
    after: Sequence[EpisodeResult] | None,
    groups: Mapping[str, Sequence[str]],
) -> list[Gain]:
    """Return the gain of each group over the pooled episodes of its tasks.

    Groups without episodes are left out.

    Args:
        groups: names of tasks by group.
    """
    gains = []
    for name, tasks in groups.items():
        first, last = ([r for r in side or () if r.task in tasks] for side in (before, after))
        if first or last:
            gains.append(gain(first, last, name))
    return gains


class Mean(NamedTuple):
    """A named value before and after training; None where that evaluation lacks it."""

    label: str
    before: float | None
    after: float | None


def means(
    before: Sequence[EpisodeResult] | None,
    after: Sequence[EpisodeResult] | None,
    groups: Mapping[str, Sequence[str]],
) -> list[Mean]:
    """Return the unweighted averages of :func:`rlcore.runs.tables.success_rows`."""
    first, last = (
        {row.label: row.rate for row in rows if row.kind == "average"}
        for rows in (success_rows(side, groups) if side else [] for side in (before, after))
    )
    return side_by_side(first, last)


def side_by_side(before: Mapping[str, float], after: Mapping[str, float]) -> list[Mean]:
    """Pair values before and after by name; a name may be missing in one of them."""
    return [Mean(name, before.get(name), after.get(name)) for name in {**before, **after}]


def columns(gains: Sequence[Gain]) -> dict[str, bool]:
    """Return whether each column of a table of gains has a value, by the column's name."""
    names = ("before", "after", "difference")
    return {name: any(getattr(entry, name) for entry in gains) for name in names}


def training_interval(rate: float, episodes: float) -> Interval:
    """Return the Wilson interval of a logged success rate over `episodes` finished episodes."""
    n = max(1, round(episodes))
    return wilson(min(n, round(rate * n)), n)
