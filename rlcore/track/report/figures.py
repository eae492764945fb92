"""Success on both sides of a training, per task and over all. Knows nothing of pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from rlcore.loop.statistics import (
    Difference,
    Interval,
    SuccessRate,
    paired_difference,
    success_rate,
    wilson,
)
from rlcore.loop.tables import EpisodeResult, success_by_start

Outcomes = Mapping[tuple[str, int], bool]
ALL_EPISODES = "all episodes"


@dataclass(frozen=True)
class Gain:
    """Success before and after on the same starts; None where a side is missing.

    Attributes:
        label: the task, or :data:`ALL_EPISODES`.
        before, after: rates with Wilson intervals.
        difference: after - before with its paired interval; None too where the sides are not
            the same starts.
        gained, lost: starts that failed before and succeed after, and the reverse.
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
    """Over all episodes of both sides."""
    first = success_by_start(before) if before else {}
    last = success_by_start(after) if after else {}
    rates = Gain(
        label,
        before=success_rate(first) if first else None,
        after=success_rate(last) if last else None,
    )
    if not first or first.keys() != last.keys():
        return rates
    return replace(
        rates,
        difference=paired_difference(first, last),
        gained=sum(last[start] and not first[start] for start in first),
        lost=sum(first[start] and not last[start] for start in first),
    )


def gains_by_task(
    before: Sequence[EpisodeResult] | None, after: Sequence[EpisodeResult] | None
) -> list[Gain]:
    """A line a task, sorted by name."""
    sides = [_by_task(side or ()) for side in (before, after)]
    tasks = sorted(sides[0].keys() | sides[1].keys())
    return [gain(sides[0].get(task), sides[1].get(task), task) for task in tasks]


def training_interval(rate: float, episodes: float) -> Interval:
    """Wilson interval of a logged success rate over that many finished episodes."""
    n = max(1, round(episodes))
    return wilson(min(n, round(rate * n)), n)


def _by_task(results: Sequence[EpisodeResult]) -> dict[str, list[EpisodeResult]]:
    found: dict[str, list[EpisodeResult]] = {}
    for result in results:
        found.setdefault(result.task, []).append(result)
    return found
