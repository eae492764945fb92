"""Combine the curves of several seeds into their mean and a band from minimum to maximum."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from statistics import fmean

from rlcore_tools.report.chart import Point

MOST_POINTS = 200  # points of a curve; in a longer curve neighbouring points are averaged


def by_step(log: Sequence[dict[str, float | None]], metric: str) -> dict[int, float]:
    """Return `{step: value}` of a metric, from those lines of a log that contain it."""
    return {
        int(line["step"] or 0): value for line in log if (value := line.get(metric)) is not None
    }


def means_of(seeds: Sequence[dict[int, float]]) -> list[Point]:
    """Return the mean over seeds at each step that all seeds logged.

    With several seeds, `lo` and `hi` of a point are the minimum and the maximum over seeds.
    """
    common = set.intersection(*map(set, seeds)) if seeds else set()
    points = []
    for step in sorted(common):
        values = [seed[step] for seed in seeds]
        ends = (min(values), max(values)) if len(values) > 1 else (None, None)
        points.append(Point(step, fmean(values), *ends))
    return points


def thinned(points: Sequence[Point]) -> list[Point]:
    """Reduce a curve to at most `MOST_POINTS` points.

    A group of neighbouring points becomes one point at their mean, with the lowest `lo` and the
    highest `hi` of the group.
    """
    each, rest = -(-len(points) // MOST_POINTS), iter(points)
    found = []
    while group := list(islice(rest, each)):
        ends = [
            None if any(v is None for v in side) else pick(v for v in side if v is not None)
            for pick, side in ((min, [p.lo for p in group]), (max, [p.hi for p in group]))
        ]
        found.append(Point(fmean(p.x for p in group), fmean(p.y for p in group), *ends))
    return found
