"""Curves of several seeds as one: their mean, and a band from the lowest to the highest."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from statistics import fmean

from rlcore_tools.report.chart import Point

MOST_POINTS = 200  # of a curve; of more, neighbours are averaged


def by_step(log: Sequence[dict[str, float | None]], metric: str) -> dict[int, float]:
    """`{step: value}` of the lines of a log that have the metric."""
    return {
        int(line["step"] or 0): value for line in log if (value := line.get(metric)) is not None
    }


def means_of(seeds: Sequence[dict[int, float]]) -> list[Point]:
    """At the steps that all seeds have: the mean, and with several seeds their range."""
    common = set.intersection(*map(set, seeds)) if seeds else set()
    points = []
    for step in sorted(common):
        values = [seed[step] for seed in seeds]
        ends = (min(values), max(values)) if len(values) > 1 else (None, None)
        points.append(Point(step, fmean(values), *ends))
    return points


def thinned(points: Sequence[Point]) -> list[Point]:
    """At most so many points; of neighbours the mean, and the widest ends."""
    each, rest = -(-len(points) // MOST_POINTS), iter(points)
    found = []
    while group := list(islice(rest, each)):
        ends = [
            None if any(v is None for v in side) else pick(v for v in side if v is not None)
            for pick, side in ((min, [p.lo for p in group]), (max, [p.hi for p in group]))
        ]
        found.append(Point(fmean(p.x for p in group), fmean(p.y for p in group), *ends))
    return found
