"""Weigh samples of earlier weights for the policy at the start of an update.

The decoupled objective (AReaL, Fu et al. 2025, arXiv 2505.24298, eq. 5) clips the ratio to a
proximal policy, here that at the start of the update, and corrects for the policy that acted:

    E_behaviour [ pi_proximal / pi_behaviour * min(u A, clip(u) A) ],    u = pi / pi_proximal
"""

from __future__ import annotations

import torch
from torch import Tensor

from rlcore.contracts import metric
from rlcore.contracts.metric import Metric
from rlcore_policy_gradient.loss import LOG_RATIO_LIMIT
from rlcore_policy_gradient.reduce import at_level, valid_at_level


def behaviour_weights(
    *, proximal: Tensor, behaviour: Tensor, valid: Tensor, level: str, threshold: float
) -> tuple[Tensor, dict[str, Metric]]:
    """Return the weights pi_proximal / pi_behaviour of the elements of P samples, and metrics.

    Elements of a weight above the threshold get 0, but still count in the divisor of the loss.
    (RLinf divides by the number of the elements that are left.)

    Args:
        proximal, behaviour: `[P, C, A]`, log-probs under the two policies.
        valid: bool `[P, C]`, executed actions whose log-probs are known here.
        level: granularity of the ratio, see :func:`rlcore_policy_gradient.reduce.at_level`.
        threshold: largest weight that counts.

    Returns:
        Weights at that granularity, 1 for invalid elements, and the metrics
        `train/actor/behave_weight`, the mean weight before elements are left out, and
        `train/actor/behave_filtered`, the fraction of elements left out.
    """
    counts = valid_at_level(valid, proximal.shape[-1], level)
    log_ratio = at_level(proximal, valid, level) - at_level(behaviour, valid, level)
    log_ratio = torch.where(counts, log_ratio, 0.0).clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)
    weights = log_ratio.exp()
    filtered = counts & (weights > threshold)
    return torch.where(filtered, 0.0, weights), {
        "train/actor/behave_weight": metric.mean(weights, counts),
        "train/actor/behave_filtered": metric.mean(filtered.float(), counts),
    }
