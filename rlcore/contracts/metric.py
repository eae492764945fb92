"""Define metrics that know how they are reduced over micro-batches, optimizer steps and ranks.

A metric consists of parts, which are sums or a maximum and can be merged, and of a rule that turns
the merged parts into a number. So the mean over a rollout is the mean over its elements, not a mean
of means.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

import torch
from torch import Tensor


class Reduction(Enum):
    """The rule that turns parts into a number.

    MEAN: (total, count) -> total / count.
    STEP_MEAN: (total,) -> total / optimizer steps, for quantities that are summed over the
        micro-batches of a step.
    SUM: (total,) -> total, for counts.
    MAX: (value,) -> value; merging takes the maximum.
    EXPLAINED_VARIANCE: (n, sum R, sum R^2, sum E, sum E^2) -> 1 - Var(E) / Var(R).
    """

    MEAN = "mean"
    STEP_MEAN = "step_mean"
    SUM = "sum"
    MAX = "max"
    EXPLAINED_VARIANCE = "explained_variance"


@dataclass(frozen=True)
class Metric:
    """A metric that can be merged with others of its kind.

    Attributes:
        parts: float64 `[K]`; K depends on the reduction.
        reduction: how parts are merged and turned into a number.
    """

    parts: Tensor
    reduction: Reduction

    def __add__(self, other: Metric) -> Metric:
        """Merge with another metric of the same reduction."""
        if self.reduction is Reduction.MAX:
            return Metric(torch.maximum(self.parts, other.parts), self.reduction)
        return Metric(self.parts + other.parts, self.reduction)

    def value(self, optimizer_steps: int) -> float:
        """Return the metric's value; NaN if it is undefined, e.g. a mean over no elements.

        Args:
            optimizer_steps: divisor of STEP_MEAN; 0 gives NaN.
        """
        if self.reduction is Reduction.MEAN:
            total, count = self.parts.tolist()
            return total / count if count else float("nan")
        if self.reduction is Reduction.STEP_MEAN:
            return float(self.parts) / optimizer_steps if optimizer_steps else float("nan")
        if self.reduction is Reduction.EXPLAINED_VARIANCE:
            return _explained_variance(*self.parts.tolist())
        return float(self.parts)


def _explained_variance(n: float, r: float, rr: float, e: float, ee: float) -> float:
    """Return 1 - Var(E) / Var(R) from sums over n returns R and errors E; NaN if Var(R) is 0."""
    variance = rr - r * r / n if n else 0.0
    # equal returns leave only a rounding error of the sums, which is not a variance
    if variance <= 1e-12 * max(rr, 1e-30):
        return float("nan")
    return 1.0 - (ee - e * e / n) / variance


def mean(x: Tensor, valid: Tensor) -> Metric:
    """Return the mean of `x` over the entries where `valid` (bool, same shape) is true."""
    total = torch.where(valid, x.detach(), 0.0).double().sum()
    return Metric(torch.stack([total, valid.sum().double()]), Reduction.MEAN)


def count(x: Tensor, valid: Tensor) -> Metric:
    """Return the number of entries where both `x` and `valid` (bool) are true, over all steps."""
    return Metric((x & valid).sum().double().reshape(1), Reduction.SUM)


def step_mean(x: Tensor) -> Metric:
    """Return a scalar `x` as a metric: summed over micro-batches, averaged over optimizer steps."""
    return Metric(x.detach().double().reshape(1), Reduction.STEP_MEAN)


def maximum(x: Tensor, valid: Tensor) -> Metric:
    """Return the largest entry of `x` where `valid` (bool) is true; -inf if there is none."""
    value = torch.where(valid, x.detach(), -torch.inf).double().max()
    return Metric(value.reshape(1), Reduction.MAX)


def observation(x: float) -> Metric:
    """Return one observation of a number; the metric is the mean over observations."""
    return Metric(torch.tensor([x, 1.0], dtype=torch.float64), Reduction.MEAN)


def explained_variance(values: Tensor, returns: Tensor, valid: Tensor) -> Metric:
    """Return the fraction of the variance of valid returns that the values explain."""
    returns = torch.where(valid, returns, 0.0).double()
    error = torch.where(valid, returns - values.detach().double(), 0.0)
    parts = [valid.sum().double(), returns.sum(), returns.square().sum()]
    parts += [error.sum(), error.square().sum()]
    return Metric(torch.stack(parts), Reduction.EXPLAINED_VARIANCE)


class Metrics:
    """An accumulator of metrics by name."""

    def __init__(self) -> None:
        self._metrics: dict[str, Metric] = {}

    def add(self, metrics: Mapping[str, Metric]) -> None:
        """Merge metrics into those of the same name."""
        for name, metric in metrics.items():
            merged = self._metrics.get(name)
            self._metrics[name] = metric if merged is None else merged + metric

    def merge(self, other: Metrics) -> None:
        """Merge all metrics of another accumulator."""
        self.add(other._metrics)

    def values(self, optimizer_steps: int = 1) -> dict[str, float]:
        """Return the value of each metric by name; see :meth:`Metric.value`."""
        return {name: metric.value(optimizer_steps) for name, metric in self._metrics.items()}
