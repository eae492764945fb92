"""Success rates and their uncertainty. Knows nothing of envs or policies; standard library only."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from math import sqrt
from statistics import NormalDist
from typing import NamedTuple, TypeVar

Start = TypeVar("Start", bound=Hashable)
"""Key of an episode, e.g. (task, trial)."""


class Interval(NamedTuple):
    """A proportion and its confidence interval, all in [0, 1]."""

    rate: float
    lo: float
    hi: float


class SuccessRate(NamedTuple):
    """A success rate over n episodes with its Wilson interval; a side of `summary.json`."""

    rate: float
    n: int
    lo: float
    hi: float


class Difference(NamedTuple):
    """A difference of two proportions, after - before, and its interval; all in [-1, 1]."""

    mean: float
    lo: float
    hi: float


def wilson(successes: int, n: int, confidence: float = 0.95) -> Interval:
    """Score interval of a binomial proportion (Wilson, JASA 22, 1927).

    Raises:
        ValueError: no episodes, or successes outside [0, n].
    """
    if n <= 0 or not 0 <= successes <= n:
        raise ValueError(f"no interval for {successes} successes of {n} episodes")
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    p = successes / n
    # (p + z^2/2n +- z sqrt(p(1-p)/n + z^2/4n^2)) / (1 + z^2/n)
    scale = 1 + z * z / n
    centre = (p + z * z / (2 * n)) / scale
    half = z / scale * sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    # exact at the ends, where rounding would leave 1e-17
    lo = 0.0 if successes == 0 else centre - half
    hi = 1.0 if successes == n else centre + half
    return Interval(p, lo, hi)


def success_rate(outcomes: Mapping[Start, bool], confidence: float = 0.95) -> SuccessRate:
    """The rate over episodes keyed by their start, with its Wilson interval."""
    interval = wilson(sum(outcomes.values()), len(outcomes), confidence)
    return SuccessRate(interval.rate, len(outcomes), interval.lo, interval.hi)


def paired_difference(
    before: Mapping[Start, bool], after: Mapping[Start, bool], confidence: float = 0.95
) -> Difference:
    """Success after minus success before on the same episodes, keyed by (task, trial).

    Newcombe's method 10 for paired proportions: Wilson limits of both sides, joined by the
    correlation of the pairs (R. G. Newcombe, Statistics in Medicine 17, 2635-2650, 1998).
    Unlike the Wald interval it keeps its coverage for small n and rates near 0 or 1.

    Raises:
        ValueError: the two sides are not the same episodes, or there are none.
    """
    _check_same(before, after)
    n = len(after)
    p_after, lo_after, hi_after = wilson(sum(after.values()), n, confidence)
    p_before, lo_before, hi_before = wilson(sum(before.values()), n, confidence)
    phi = _correlation(before, after)
    mean = p_after - p_before
    down = _joined(p_after - lo_after, hi_before - p_before, phi)
    up = _joined(hi_after - p_after, p_before - lo_before, phi)
    return Difference(mean, max(-1.0, mean - down), min(1.0, mean + up))


def _check_same(before: Mapping[Start, bool], after: Mapping[Start, bool]) -> None:
    only_before, only_after = before.keys() - after.keys(), after.keys() - before.keys()
    if only_before or only_after:
        example = next(iter(only_before or only_after))
        raise ValueError(
            "a paired difference needs the same episodes on both sides: "
            f"{len(only_before)} only before, {len(only_after)} only after, e.g. {example}"
        )


def _correlation(before: Mapping[Start, bool], after: Mapping[Start, bool]) -> float:
    """phi of the 2x2 table of pairs, with Newcombe's continuity correction; 0 where undefined."""
    pairs = [(bool(after[key]), bool(before[key])) for key in after]
    both, gained = pairs.count((True, True)), pairs.count((True, False))
    lost, neither = pairs.count((False, True)), pairs.count((False, False))
    margins = (both + gained) * (lost + neither) * (both + lost) * (gained + neither)
    if margins == 0:
        return 0.0
    cross = both * neither - gained * lost
    corrected = max(cross - len(pairs) / 2, 0.0) if cross > 0 else cross
    return corrected / sqrt(margins)


def _joined(a: float, b: float, phi: float) -> float:
    """sqrt(a^2 - 2 phi a b + b^2): half-widths of two correlated estimates as one."""
    return sqrt(max(a * a - 2 * phi * a * b + b * b, 0.0))
