"""Check what an on-policy algorithm returns: types, shapes and finite advantages.

A tensor [N] in place of [T, N, 1] would otherwise broadcast silently. Knows no model and no env.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from rlcore.contracts.learning import Terms
from rlcore.contracts.trajectory import Trajectory
from rlcore.validation.algorithm import algorithm_error, check_terms
from rlcore.validation.policy import describe_answer
from rlcore_policy_gradient.minibatch import Advantages


def checked_advantages(name: str, trajectory: Trajectory, answer: Any) -> Advantages:
    """Return the result of `advantages` for a trajectory, after checking it.

    Args:
        name: name of the algorithm, for error messages.
        trajectory: the batch.
        answer: the result.

    Raises:
        AlgorithmError: the result is no :class:`Advantages`, has other shapes or dtypes, is not
            finite, or marks actions as valid that were never executed.
    """
    if not isinstance(answer, Advantages):
        raise algorithm_error(name, "advantages", "", describe_answer(answer), "Advantages")
    chunks, columns, actions, _ = trajectory.shape
    places = [chunks, columns]
    values = trajectory.values.shape[-1]
    for field, tensor, kind, widths in (
        ("advantages", answer.advantages, torch.float32, (1, actions)),
        ("returns", answer.returns, torch.float32, (values, 0)),
        ("valid", answer.valid, torch.bool, (actions,)),
    ):
        shapes = [[*places, width] for width in dict.fromkeys(widths)]
        has_dtype = isinstance(tensor, Tensor) and tensor.dtype == kind
        if not has_dtype or [*tensor.shape] not in shapes:
            dtype = str(kind).removeprefix("torch.")
            expected = f"a tensor {dtype} {' or '.join(map(str, shapes))}"
            raise algorithm_error(name, "advantages", field, describe_answer(tensor), expected)
        if not tensor.isfinite().all():
            chunk, column, entry = (~tensor.isfinite()).nonzero()[0].tolist()
            observed = f"{float(tensor[chunk, column, entry])} in chunk {chunk} of column {column}"
            raise algorithm_error(name, "advantages", field, observed, "finite numbers")
    idle = int((answer.valid & ~trajectory.valid).sum())
    if idle:
        observed = f"true for {idle} actions that were never executed"
        raise algorithm_error(name, "advantages", "valid", observed, "false there")
    return answer


def checked_loss(name: str, answer: Any, *, required: str | None = None) -> Terms:
    """Return the result of `loss`, after checking it.

    Args:
        name: name of the algorithm, for error messages.
        answer: the result.
        required: name of a metric that the update needs; None: no metric is needed.

    Raises:
        AlgorithmError: the result is not a scalar and metrics by name, or lacks the required one.
    """
    loss, metrics = check_terms(name, answer)
    if required is not None and required not in metrics:
        expected = f"metrics with {required}, because target_kl or desired_kl is set"
        raise algorithm_error(name, "loss", "metrics", f"{sorted(metrics)}", expected)
    return loss, metrics
