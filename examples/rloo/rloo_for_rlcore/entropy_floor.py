"""A term that is added to the loss of an on-policy algorithm."""

from __future__ import annotations

import torch
from rlcore_policy_gradient.minibatch import Minibatch
from rlcore_policy_gradient.on_policy import OnPolicy
from torch import Tensor

from rlcore.contracts import metric
from rlcore.contracts.metric import Metric
from rlcore.contracts.protocols import Evaluation
from rloo_for_rlcore.entropy import EntropyFloor


def floored(algorithm: OnPolicy, settings: EntropyFloor) -> OnPolicy:
    """Add coef * sum_B w max(0, floor - H), H the mean entropy of a chunk's executed entries and w
    what the elements of the chunk weigh in the entropy bonus."""
    loss = algorithm.loss

    def with_term(now: Evaluation, batch: Minibatch) -> tuple[Tensor, dict[str, Metric]]:
        total, metrics = loss(now, batch)
        executed = batch.valid[..., None].expand_as(now.logprobs)
        entropy = torch.where(executed, now.entropy.expand_as(now.logprobs), 0.0).sum((1, 2))
        mean = entropy / executed.sum((1, 2)).clamp(min=1)
        weights = batch.weights.entropy.sum((1, 2))
        term = (weights * (settings.floor - mean).clamp(min=0.0)).sum()
        metrics["train/actor/entropy_floor"] = metric.step_mean(term)
        return total + settings.coef * term, metrics

    algorithm.loss = with_term  # type: ignore[method-assign]
    return algorithm
