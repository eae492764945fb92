"""Compare settings that were each trained with several seeds and evaluated on the same starts.

Success Y[seed, start] varies with both: another seed trains another policy, and other starts are
easier or harder. The variance of the mean over seeds and starts is (C. Cameron, J. Gelbach,
D. Miller, Robust inference with multiway clustering, JBES 29, 238-249, 2011; for seeds x starts)

    Var = Var_starts + Var_seeds - Var_rest

    Var_starts = s^2(means of starts) / n        n starts
    Var_seeds  = s^2(means of seeds) / k         k seeds
    Var_rest   = s^2(residuals of the additive model) / (n k)

and is at least the larger of Var_starts and Var_seeds. Its degrees of freedom are Satterthwaite's,
Var^2 / (Var_starts^2 / (n - 1) + Var_seeds^2 / (k - 1)), so that few seeds give wide intervals. The
interval of a rate p is the Wilson interval for the effective number of episodes p (1 - p) / Var,
with the quantile of Student's t. The interval of a difference combines those of the two rates by
Newcombe's method 10, with the correlation of the two settings' means over the same starts. With one
seed the intervals are those of a run (:mod:`rlcore.runs.statistics`), which don't include the
variation between seeds.

Standard library only.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import cos, expm1, pi, sin, sqrt
from statistics import NormalDist, fmean, variance

from rlcore.runs.statistics import (
    Difference,
    Passes,
    SuccessRate,
    paired_difference,
    success_rate,
    wilson,
)

Outcomes = Mapping[Hashable, Passes]
"""Outcomes of one seed: `{start: success of each pass}`."""
_NORMAL = NormalDist()
WIDEST = 8.0  # largest quantile: from about 8.3 on, the confidence rounds to 1


@dataclass(frozen=True)
class Spread:
    """Mean success of a setting and its variance.

    Attributes:
        mean: mean over seeds and starts.
        variance: variance of that mean; 0 if seeds don't differ in their means, nor starts in
            theirs.
        freedom: degrees of freedom of the variance.
        episodes: number of episodes, over all seeds, starts and passes.
        by_start: mean over seeds for each start.
        by_seed: mean over starts for each seed.
    """

    mean: float
    variance: float
    freedom: float
    episodes: int
    by_start: Mapping[Hashable, float]
    by_seed: Sequence[float]


@dataclass(frozen=True)
class Seeds:
    """Outcomes of a setting.

    Attributes:
        outcomes: outcomes of each seed.
    """

    outcomes: Sequence[Outcomes]

    @cached_property
    def spread(self) -> Spread:
        """Result of :func:`spread` for these seeds, computed once."""
        return spread(self.outcomes)


def spread(seeds: Sequence[Outcomes]) -> Spread:
    """Compute the mean success over the seeds of a setting, and its variance.

    Args:
        seeds: outcomes of each seed, all over the same starts.

    Raises:
        ValueError: there are no seeds or no starts, or the seeds have different starts.
    """
    if not seeds or not seeds[0] or any(seed.keys() != seeds[0].keys() for seed in seeds):
        raise ValueError("seeds must have the same starts, at least one")
    shares = [
        {start: sum(passes) / len(passes) for start, passes in seed.items()} for seed in seeds
    ]
    by_start = {start: fmean(share[start] for share in shares) for start in seeds[0]}
    by_seed = [fmean(share.values()) for share in shares]
    mean = fmean(by_seed)
    k = len(seeds)
    n = len(by_start)
    of_seeds = variance(by_seed) / k if k > 1 else 0.0
    of_starts = variance(by_start.values()) / n if n > 1 else 0.0
    rest = 0.0
    if k > 1 and n > 1:
        squares = (
            (share[start] - by_start[start] - by_seed[i] + mean) ** 2
            for i, share in enumerate(shares)
            for start in by_start
        )
        rest = sum(squares) / ((k - 1) * (n - 1)) / (k * n)
    total = max(of_starts, of_seeds, of_starts + of_seeds - rest)
    parts = (of_starts**2 / (n - 1) if n > 1 else 0.0) + (of_seeds**2 / (k - 1) if k > 1 else 0.0)
    freedom = max(1.0, total**2 / parts) if parts else float(max(1, k * n - 1))
    episodes = sum(len(passes) for seed in seeds for passes in seed.values())
    return Spread(mean, total, freedom, episodes, by_start, by_seed)


def rate_over_seeds(seeds: Seeds, confidence: float = 0.95) -> SuccessRate:
    """Return the mean success of a setting with its interval.

    Raises:
        ValueError: as :func:`spread`, for several seeds.
    """
    if len(seeds.outcomes) == 1:
        return success_rate([*seeds.outcomes[0].values()], confidence)
    return _rate(seeds.spread, confidence)


def difference_over_seeds(first: Seeds, other: Seeds, confidence: float = 0.95) -> Difference:
    """Return the mean success of `other` minus that of `first`, paired by start.

    Raises:
        ValueError: the settings have different starts, or none.
    """
    if len(first.outcomes) == len(other.outcomes) == 1:
        return paired_difference(first.outcomes[0], other.outcomes[0], confidence)
    a = first.spread
    b = other.spread
    if a.by_start.keys() != b.by_start.keys():
        raise ValueError("settings must have the same starts")
    _, _, a_lo, a_hi = _rate(a, confidence)
    _, _, b_lo, b_hi = _rate(b, confidence)
    phi = _correlation(a, b)
    mean = b.mean - a.mean
    down = _paired_half_width(b.mean - b_lo, a_hi - a.mean, phi)
    up = _paired_half_width(b_hi - b.mean, a.mean - a_lo, phi)
    return Difference(mean, max(-1.0, mean - down), min(1.0, mean + up))


def student(confidence: float, freedom: float) -> float:
    """Return the two-sided quantile of Student's t distribution.

    Exact for 1 and 2 degrees of freedom, correct to about six digits from 3 on (G. W. Hill,
    Algorithm 396, CACM 13, 619-620, 1970).

    Args:
        confidence: probability of the interval from minus to plus the quantile, in (0, 1).
        freedom: degrees of freedom, at least 1.
    """
    p = 1 - confidence
    n = freedom
    if n == 1:
        return cos(p * pi / 2) / sin(p * pi / 2)
    if n == 2:
        return sqrt(2 / (p * (2 - p)) - 2)
    a = 1 / (n - 0.5)
    b = 48 / (a * a)
    c = ((20700 * a / b - 98) * a - 16) * a + 96.36
    d = ((94.5 / (b + c) - 3) / b + 1) * sqrt(a * pi / 2) * n
    y = (d * p) ** (2 / n)
    if y > 0.05 + a:
        x = _NORMAL.inv_cdf(p / 2)
        y = x * x
        if n < 5:
            c += 0.3 * (n - 4.5) * (x + 0.6)
        c = (((0.05 * d * x - 5) * x - 7) * x - 2) * x + b + c
        y = (((((0.4 * y + 6.3) * y + 36) * y + 94.5) / c - y - 3) / b + 1) * x
        y = expm1(a * y * y)
    else:
        y = (
            (1 / (((n + 6) / (n * y) - 0.089 * d - 0.822) * (n + 2) * 3) + 0.5 / (n + 4)) * y - 1
        ) * (n + 1) / (n + 2) + 1 / y
    return sqrt(n * y)


def _rate(spread: Spread, confidence: float) -> SuccessRate:
    p = spread.mean
    if not 0 < p < 1 or not spread.variance:  # no variation to estimate from: starts count once
        count = float(len(spread.by_start))
    else:
        count = min(p * (1 - p) / spread.variance, spread.episodes)
        t = min(student(confidence, spread.freedom), WIDEST)
        confidence = 2 * _NORMAL.cdf(t) - 1
    _, lo, hi = wilson(min(p * count, count), count, confidence)
    return SuccessRate(p, spread.episodes, lo, hi)


def _correlation(a: Spread, b: Spread) -> float:
    """Return the correlation of two settings' means, from their means by start."""
    n = len(a.by_start)
    if n < 2 or not a.variance or not b.variance:
        return 0.0
    both = sum((a.by_start[s] - a.mean) * (b.by_start[s] - b.mean) for s in a.by_start)
    phi = both / (n - 1) / n / sqrt(a.variance * b.variance)
    return max(-1.0, min(1.0, phi))


def _paired_half_width(a: float, b: float, phi: float) -> float:
    """Return sqrt(a^2 - 2 phi a b + b^2): half-width of a difference of correlated estimates."""
    return sqrt(max(a * a - 2 * phi * a * b + b * b, 0.0))
