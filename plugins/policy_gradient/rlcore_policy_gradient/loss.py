"""Compute the losses of policy-gradient training. Pure tensor functions, all in fp32.

Inputs have the granularity of their setting (see :mod:`rlcore_policy_gradient.reduce`). Each loss
is `sum(weights * elements)`: the weights contain the aggregation and are 0 for invalid elements.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from rlcore.contracts import metric
from rlcore.contracts.metric import Metric

LOG_RATIO_LIMIT = 20.0
"""Log ratios are clamped to +- this; beyond it their gradient is 0. e^20 is far outside the range
of clipped ratios, and its square does not overflow float32. Without the limit, one outlier
would make the gradient infinite or NaN, and the optimizer would skip the whole step."""


def policy_loss(
    *,
    logprobs: Tensor,
    old_logprobs: Tensor,
    advantages: Tensor,
    weights: Tensor,
    clip_ratio_low: float,
    clip_ratio_high: float,
    clip_ratio_c: float | None = None,
    clip_log_ratio: float | None = None,
) -> tuple[Tensor, dict[str, Metric]]:
    """Return the clipped surrogate (Schulman et al. 2017, arXiv 1707.06347, eq. 7), with separate
    bounds (DAPO, Yu et al. 2025, arXiv 2503.14476) and dual clip (Ye et al. 2020, arXiv
    1912.09729).

    Args:
        logprobs, old_logprobs, weights: `[B, E, F]`.
        advantages: broadcastable to `[B, E, F]`.
        clip_ratio_low, clip_ratio_high: the ratio is clipped to [1 - low, 1 + high].
        clip_ratio_c: c > 1, bound of the loss at c |A| where A < 0; None: off.
        clip_log_ratio: the log ratio is clamped to +- this before exp; None:
            :data:`LOG_RATIO_LIMIT`.

    Returns:
        The loss, and metrics over valid elements: `policy_loss`, `ratio`, `ratio_max`,
        `clipped_ratio` (mean of the clipped ratio), `clip_fraction` (elements where clipping
        changed the loss, in [0, 1]), `dual_clip_fraction`, `clamped_log_ratios` (their number),
        `approx_kl` (k3 = mean(rho - 1 - log rho), never negative, of ratios clamped by
        LOG_RATIO_LIMIT alone), `approx_kl_k1` (k1 = mean(-log rho) of the ratios as they are; it
        may be negative). Both estimate KL(old || new): J. Schulman, "Approximating KL
        Divergence", 2020.
    """
    valid = weights > 0
    # log-probs of invalid elements may have any value, NaN included; their gradient must be 0
    log_ratio = torch.where(valid, logprobs - old_logprobs, 0.0)
    advantages = advantages.expand_as(log_ratio)
    k1 = -log_ratio.detach()
    k3 = _k3(log_ratio.detach())
    limit = LOG_RATIO_LIMIT if clip_log_ratio is None else clip_log_ratio
    clamped = log_ratio.abs() > limit
    log_ratio = log_ratio.clamp(-limit, limit)
    # L = max(-A rho, -A clip(rho, 1 - low, 1 + high))
    ratio = log_ratio.exp()
    clipped_ratio = ratio.clamp(1.0 - clip_ratio_low, 1.0 + clip_ratio_high)
    plain, clipped = -advantages * ratio, -advantages * clipped_ratio
    elements = torch.maximum(plain, clipped)
    dual = torch.zeros_like(valid)
    if clip_ratio_c is not None:
        # L = min(L, c |A|) where A < 0
        bound = -clip_ratio_c * advantages
        dual = (advantages < 0) & (elements > bound)
        elements = torch.where(dual, bound, elements)
    loss = _weighted(elements, weights)
    return loss, {
        "train/actor/policy_loss": metric.step_mean(loss),
        "train/actor/ratio": metric.mean(ratio, valid),
        "train/actor/ratio_max": metric.maximum(ratio, valid),
        "train/actor/clipped_ratio": metric.mean(clipped_ratio, valid),
        "train/actor/clip_fraction": metric.mean((clipped > plain).float(), valid),
        "train/actor/dual_clip_fraction": metric.mean(dual.float(), valid),
        "train/actor/clamped_log_ratios": metric.count(clamped, valid),
        "train/actor/approx_kl": metric.mean(k3, valid),
        "train/actor/approx_kl_k1": metric.mean(k1, valid),
    }


def value_loss(
    *,
    values: Tensor,
    old_values: Tensor,
    returns: Tensor,
    weights: Tensor,
    value_clip: float | None,
    huber_delta: float | None,
) -> tuple[Tensor, dict[str, Metric]]:
    """Return the value loss, squared or Huber, with clipping around the old value.

        V_clip = V_old + clip(V - V_old, -value_clip, value_clip)
        L      = max(h(R - V), h(R - V_clip))
        h(e)   = e^2 / 2 where |e| < huber_delta, else huber_delta (|e| - huber_delta / 2)

    Args:
        values, old_values, returns, weights: `[B, V]`.
        value_clip: largest change from the old value in V_clip; None: no clipping.
        huber_delta: error above which h is linear; None: h is quadratic everywhere.

    Returns:
        The loss, and metrics over valid values: `value_loss`, `value_clip_ratio` (share of
        |V - V_old| > value_clip), `explained_variance`.
    """
    valid = weights > 0
    values = torch.where(valid, values, 0.0)
    old_values, returns = old_values.where(valid, 0.0), returns.where(valid, 0.0)
    elements = _huber(returns - values, huber_delta)
    moved_far = torch.zeros_like(valid)
    if value_clip is not None:
        step = values - old_values
        clipped = old_values + step.clamp(-value_clip, value_clip)
        elements = torch.maximum(elements, _huber(returns - clipped, huber_delta))
        moved_far = step.abs() > value_clip
    loss = _weighted(elements, weights)
    return loss, {
        "train/critic/value_loss": metric.step_mean(loss),
        "train/critic/value_clip_ratio": metric.mean(moved_far.float(), valid),
        "train/critic/explained_variance": metric.explained_variance(values, returns, valid),
    }


def entropy_mean(*, entropy: Tensor, weights: Tensor) -> tuple[Tensor, dict[str, Metric]]:
    """Return the weighted sum of the entropy, which is to be maximised, and metrics.

    Args:
        entropy, weights: `[B, E, F]` at the granularity entropy_type; the entropy broadcasts.
    """
    result = _weighted(entropy, weights)
    return result, {"train/actor/entropy": metric.step_mean(result)}


def kl_to_reference(
    *, logprobs: Tensor, reference_logprobs: Tensor, weights: Tensor
) -> tuple[Tensor, dict[str, Metric]]:
    """Return the KL to the reference weights by the k3 estimator (Schulman 2020, "Approximating KL
    divergence"): `exp(x) - x - 1` with x = log pi_ref - log pi, never negative.

    Args:
        logprobs, reference_logprobs, weights: `[B, E, F]`.

    Returns:
        The loss, and metrics over valid elements: `kl_reference`, and `clamped_kl_reference`, the
        number of elements whose x exceeded :data:`LOG_RATIO_LIMIT`.
    """
    valid = weights > 0
    log_ratio = torch.where(valid, reference_logprobs - logprobs, 0.0)
    elements = _k3(log_ratio)
    loss = _weighted(elements, weights)
    return loss, {
        "train/actor/kl_reference": metric.mean(elements, valid),
        "train/actor/clamped_kl_reference": metric.count(log_ratio > LOG_RATIO_LIMIT, valid),
    }


def _k3(x: Tensor) -> Tensor:
    """Return `exp(x) - x - 1` with x clamped to at most LOG_RATIO_LIMIT, so that exp does not
    overflow. expm1 is exact near 0, where exp(x) - 1 would lose digits."""
    x = x.clamp(max=LOG_RATIO_LIMIT)
    return torch.expm1(x) - x


def _huber(error: Tensor, delta: float | None) -> Tensor:
    if delta is None:
        return 0.5 * error.square()
    return F.huber_loss(error, torch.zeros_like(error), reduction="none", delta=delta)


def _weighted(elements: Tensor, weights: Tensor) -> Tensor:
    return (torch.where(weights > 0, elements, 0.0) * weights).sum()
