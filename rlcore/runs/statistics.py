"""Compute success rates and their confidence intervals. Uses only the standard library."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from math import fsum, sqrt
from statistics import NormalDist
from typing import NamedTuple, TypeVar

Start = TypeVar("Start", bound=Hashable)
"""Key of a start, e.g. (task, trial)."""
Passes = Sequence[bool]
"""Success of each episode from one start, by pass; all starts have the same number of passes."""


class Interval(NamedTuple):
    """A proportion and its confidence interval, all in [0, 1]."""

    rate: float
    lo: float
    hi: float


class SuccessRate(NamedTuple):
    """A success rate over n episodes with its Wilson interval [lo, hi]."""

    rate: float
    n: int
    lo: float
    hi: float


class Difference(NamedTuple):
    """A difference of two proportions, after - before, and its confidence interval, in [-1, 1]."""

    mean: float
    lo: float
    hi: float


def wilson(successes: float, n: float, confidence: float = 0.95) -> Interval:
    """Compute the score interval of a binomial proportion (Wilson, JASA 22, 1927).

    Args:
        successes, n: numbers of successes and of episodes; fractions for an effective sample size.
        confidence: the confidence level of the interval.

    Raises:
        ValueError: n is not positive, or successes is outside [0, n].
    """
    if n <= 0 or not 0 <= successes <= n:
        raise ValueError(f"no interval for {successes} successes of {n} episodes")
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    p = successes / n
    # (p + z^2/2n +- z sqrt(p(1-p)/n + z^2/4n^2)) / (1 + z^2/n)
    scale = 1 + z * z / n
    centre = (p + z * z / (2 * n)) / scale
    half = z / scale * sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    # exact 0 and 1 at the ends, where rounding errors would leave e.g. 1e-17
    lo = 0.0 if successes == 0 else centre - half
    hi = 1.0 if successes == n else centre + half
    return Interval(p, lo, hi)


def success_rate(starts: Sequence[Passes], confidence: float = 0.95) -> SuccessRate:
    """Compute the success rate over all episodes, with its Wilson interval.

    With several passes, episodes from one start are correlated, so they carry less information than
    the same number of independent episodes. The interval is therefore computed for the effective
    sample size (E. L. Korn, B. I. Graubard, Survey Methodology 24, 193-201, 1998), clamped to at
    least the number of starts and at most the number of episodes:

        n* = p (1 - p) / Var(p),   Var(p) = sum_i (m_i - p)^2 / (n (n - 1))

    m_i is the fraction of the passes of start i that succeeded, n is the number of starts. With one
    pass, n* is the number of episodes.

    Args:
        starts: the passes of each start.
        confidence: the confidence level of the interval.

    Raises:
        ValueError: there are no episodes.
    """
    episodes = sum(len(passes) for passes in starts)
    p = sum(sum(passes) for passes in starts) / max(episodes, 1)
    n = _effective(starts, p, episodes)
    interval = wilson(p * n if n != episodes else round(p * n), n, confidence)
    return SuccessRate(p, episodes, interval.lo, interval.hi)


def _effective(starts: Sequence[Passes], p: float, episodes: int) -> float:
    n = len(starts)
    # With p = 0 or 1, or a single start, the variance between starts can't be estimated from the
    # data: the number of starts is the conservative choice.
    if episodes == n or p in (0, 1) or n == 1:
        return n
    spread = fsum((sum(passes) / len(passes) - p) ** 2 for passes in starts)
    return episodes if spread == 0 else min(max(n * (n - 1) * p * (1 - p) / spread, n), episodes)


def paired_difference(
    before: Mapping[Start, Passes], after: Mapping[Start, Passes], confidence: float = 0.95
) -> Difference:
    """Compute the success rate after minus the success rate before, from the same starts.

    The interval is Newcombe's method 10 for paired proportions: the Wilson limits of both sides are
    combined with the correlation of the pairs (R. G. Newcombe, Statistics in Medicine 17,
    2635-2650, 1998). Unlike the Wald interval it keeps its coverage for small n and rates near 0 or
    1. With several passes, a pair consists of the two success fractions of one start.

    Args:
        before, after: the passes of each start, by start, e.g. (task, trial).
        confidence: the confidence level of the interval.

    Raises:
        ValueError: the starts or the numbers of their passes differ between the two sides, or there
            are no episodes.
    """
    _check_same(before, after)
    p_after, _, lo_after, hi_after = success_rate([*after.values()], confidence)
    p_before, _, lo_before, hi_before = success_rate([*before.values()], confidence)
    phi = _correlation(before, after)
    mean = p_after - p_before
    down = _combined_width(p_after - lo_after, hi_before - p_before, phi)
    up = _combined_width(hi_after - p_after, p_before - lo_before, phi)
    return Difference(mean, max(-1.0, mean - down), min(1.0, mean + up))


def _check_same(before: Mapping[Start, Passes], after: Mapping[Start, Passes]) -> None:
    only_before = before.keys() - after.keys()
    only_after = after.keys() - before.keys()
    if only_before or only_after:
        example = next(iter(only_before or only_after))
        raise ValueError(
            "a paired difference needs the same episodes on both sides: "
            f"{len(only_before)} only before, {len(only_after)} only after, e.g. {example}"
        )
    for key, passes in after.items():
        if len(passes) != len(before[key]):
            raise ValueError(
                f"a paired difference needs as many passes on both sides: {key} was played "
                f"{len(before[key])} times before and {len(passes)} times after"
            )


def _correlation(before: Mapping[Start, Passes], after: Mapping[Start, Passes]) -> float:
    """Compute the correlation of the pairs, with Newcombe's continuity correction.

        phi = (n sum xy - sum x sum y) / sqrt((n sum x^2 - (sum x)^2) (n sum y^2 - (sum y)^2))

    x and y are the numbers of successes from each start after and before, n is the number of
    starts. With one pass this is phi of the 2x2 table of pairs. If all x or all y are equal, phi is
    undefined and the result is 0.
    """
    n = len(after)
    passes = max(map(len, after.values()))
    x = [sum(after[key]) for key in after]
    y = [sum(before[key]) for key in after]
    cross = n * sum(a * b for a, b in zip(x, y, strict=True)) - sum(x) * sum(y)
    margins = (n * sum(a * a for a in x) - sum(x) ** 2) * (n * sum(b * b for b in y) - sum(y) ** 2)
    if margins == 0:
        return 0.0
    corrected = max(cross - n * passes**2 / 2, 0.0) if cross > 0 else cross
    return corrected / sqrt(margins)


def _combined_width(a: float, b: float, phi: float) -> float:
    """Combine the half-widths a and b of two correlated estimates: sqrt(a^2 - 2 phi a b + b^2)."""
    return sqrt(max(a * a - 2 * phi * a * b + b * b, 0.0))
