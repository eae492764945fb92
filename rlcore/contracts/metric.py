"""Define metrics that carry their reduction over micro-batches, optimizer steps and ranks.

A metric is a few sums (or extremes) that add up, and a rule that turns them into a number at the
end. So the mean of a rollout is the mean over its elements, never a mean of means.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

import torch
from torch import Tensor


class Reduction(Enum):
    """How parts become a number.

    MEAN: (total, count) -> total / count.
    STEP_MEAN: (total,) -> total / optimizer steps; for what micro-batches add up to.
    SUM: (total,) -> total; for what is counted.
    MAX: (value,).
    EXPLAINED_VARIANCE: (n, sum R, sum R^2, sum E, sum E^2) -> 1 - Var(E) / Var(R).
    """

    MEAN = "mean"
    STEP_MEAN = "step_mean"
    SUM = "sum"
    MAX = "max"
    EXPLAINED_VARIANCE = "explained_variance"


@dataclass(frozen=True)
class Metric:
    """Parts float64 `[K]` (K depends on the reduction) and the reduction."""

    parts: Tensor
    reduction: Reduction

    def __add__(self, other: Metric) -> Metric:
        """Add another part of the same metric."""
        if self.reduction is Reduction.MAX:
            return Metric(torch.maximum(self.parts, other.parts), self.reduction)
        return Metric(self.parts + other.parts, self.reduction)

    def number(self, optimizer_steps: int) -> float:
        """Return the metric's value; NaN where it is not defined (nothing counted)."""
        if self.reduction is Reduction.MEAN:
            total, count = self.parts.tolist()
            return total / count if count else float("nan")
        if self.reduction is Reduction.STEP_MEAN:
            return float(self.parts) / optimizer_steps if optimizer_steps else float("nan")
        if self.reduction is Reduction.EXPLAINED_VARIANCE:
            return _explained_variance(*self.parts.tolist())
        return float(self.parts)


def _explained_variance(n: float, r: float, rr: float, e: float, ee: float) -> float:
    """Compute 1 - Var(R - V) / Var(R); NaN where all returns are equal."""
    variance = rr - r * r / n if n else 0.0
    # sums lose digits: what is left of equal returns is rounding, not variance
    if variance <= 1e-12 * max(rr, 1e-30):
        return float("nan")
    return 1.0 - (ee - e * e / n) / variance


def mean(x: Tensor, valid: Tensor) -> Metric:
    """Take the mean of `x` over the entries where `valid` (same shape) is true."""
    chosen = torch.where(valid, x.detach(), 0.0).double().sum()
    return Metric(torch.stack([chosen, valid.sum().double()]), Reduction.MEAN)


def count(x: Tensor, valid: Tensor) -> Metric:
    """Count how many entries of `x` (bool) are true where `valid` is, over all steps."""
    return Metric((x & valid).sum().double().reshape(1), Reduction.SUM)


def step_mean(x: Tensor) -> Metric:
    """Sum over a minibatch's micro-batches, mean over optimizer steps."""
    return Metric(x.detach().double().reshape(1), Reduction.STEP_MEAN)


def maximum(x: Tensor, valid: Tensor) -> Metric:
    """Take the largest valid entry; -inf if no entry is valid."""
    value = torch.where(valid, x.detach(), -torch.inf).double().max()
    return Metric(value.reshape(1), Reduction.MAX)


def observed(x: float) -> Metric:
    """Observe a plain number once; the metric is the mean over observations."""
    return Metric(torch.tensor([x, 1.0], dtype=torch.float64), Reduction.MEAN)


def explained_variance(values: Tensor, returns: Tensor, valid: Tensor) -> Metric:
    """Compute the share of the returns' variance that the values explain, over valid entries."""
    returns = torch.where(valid, returns, 0.0).double()
    error = torch.where(valid, returns - values.detach().double(), 0.0)
    parts = [valid.sum().double(), returns.sum(), returns.square().sum()]
    parts += [error.sum(), error.square().sum()]
    return Metric(torch.stack(parts), Reduction.EXPLAINED_VARIANCE)


class Metrics:
    """Accumulates metrics by name."""

    def __init__(self) -> None:
        self._metrics: dict[str, Metric] = {}

    def add(self, metrics: Mapping[str, Metric]) -> None:
        """Add parts."""
        for name, metric in metrics.items():
            known = self._metrics.get(name)
            self._metrics[name] = metric if known is None else known + metric

    def merge(self, other: Metrics) -> None:
        """Add all of another accumulator."""
        self.add(other._metrics)

    def numbers(self, optimizer_steps: int = 1) -> dict[str, float]:
        """Return the values by name."""
        return {name: metric.number(optimizer_steps) for name, metric in self._metrics.items()}
