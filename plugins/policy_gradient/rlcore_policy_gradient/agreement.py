"""Check with the first minibatch of an update that `evaluate` agrees with `act`.

Before the first optimizer step, `evaluate` must return the log-probs of `act`, so that all ratios
are 1, and gradients must reach all trained parameters. Otherwise the policy that is trained is not
the policy that acted. Knows no algorithm.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from rlcore.contracts import metric
from rlcore.contracts.errors import PolicyError
from rlcore.contracts.metric import Metric
from rlcore.contracts.specs import PolicySpec
from rlcore.utils.text import abbreviate_list

LOGPROB_GAP = "train/actor/logprob_gap"
GROSS = 10.0
"""A gap up to this many times :data:`ROUNDING` is a warning, a larger one an error. Kernels of an
accelerator may round more than the ones that were measured."""
ROUNDING = {"fp32": 1e-3, "bf16": 0.1}
"""Largest :data:`LOGPROB_GAP` without a warning, by the precision of the policy's parameters.
Sums in another order cause a gap of about 1e-5 in fp32 and of 0.02 to 0.05 in bf16; with
autoregressive tokens the gap in bf16 is larger."""
HINT = "rlcore check model NAME shows where"


def gap(logprobs: Tensor, old_logprobs: Tensor, valid: Tensor) -> Metric:
    """Return the mean absolute difference of log-probs `[B, C, A]` over executed actions.

    Args:
        logprobs: log-probs of `evaluate`.
        old_logprobs: log-probs of `act`.
        valid: bool `[B, C]`, executed actions.
    """
    difference = (logprobs - old_logprobs).abs()
    return metric.mean(difference, valid[..., None].expand_as(logprobs))


def check_gap(policy: Any, gap: float) -> str:
    """Return a warning about a gap that exceeds :data:`ROUNDING`, or "" if it does not.

    Args:
        policy: the trained policy.
        gap: the mean difference, see :func:`gap`; NaN gives no warning.

    Raises:
        PolicyError: the gap exceeds GROSS * ROUNDING, and the policy's spec gives no reason for one
            (`inexact_logprobs`).
    """
    spec: PolicySpec = policy.spec
    precision = "fp32" if all(p.element_size() >= 4 for p in policy.parameters()) else "bf16"
    if not gap > ROUNDING[precision]:  # NaN: the optimizer refuses the step
        return ""
    message = (
        f"model {spec.name}: log-probs of evaluate are {gap:.3g} away from those of act on "
        f"average, at the weights that acted; expected at most {ROUNDING[precision]:g} in "
        f"{precision}, so that the first ratios are 1"
    )
    if spec.inexact_logprobs:
        return f"{message}; the model's reason: {spec.inexact_logprobs}"
    if gap <= GROSS * ROUNDING[precision]:
        return message
    raise PolicyError(
        message,
        hint="use one log-prob function in both, with the same noise or temperature and without "
        f"dropout; {HINT}. If the model cannot avoid the gap, PolicySpec.inexact_logprobs states "
        "the reason; an algorithm that compares no log-probs sets "
        "AlgorithmNeeds(exact_logprobs=False)",
    )


def require_gradient(spec: PolicySpec, logprobs: Tensor) -> None:
    """Raise PolicyError if the log-probs of `evaluate` have no gradient."""
    if not logprobs.requires_grad:
        raise PolicyError(
            f"model {spec.name}: log-probs of evaluate have no gradient, expected one for "
            "the trained parameters",
            hint=f"evaluate runs without torch.no_grad() and .detach(); {HINT}",
        )


def without_gradient(policy: Any, unreached: Sequence[nn.Parameter], trained: int) -> str:
    """Return a warning about parameters that have had no gradient so far, or "" if all have.

    Args:
        policy: the trained policy; parameters whose names start with `spec.unused_parameters` are
            ignored.
        unreached: trained parameters without a gradient.
        trained: number of all trained parameters.
    """
    missed = {id(parameter) for parameter in unreached}
    names = [
        name
        for name, parameter in policy.named_parameters()
        if id(parameter) in missed and not name.startswith(policy.spec.unused_parameters)
    ]
    if not names:
        return ""
    return (
        f"model {policy.spec.name}: no gradient reaches {len(names)} of {trained} parameters "
        f"that are to be trained: {abbreviate_list(names)}; look for .detach() in evaluate and in "
        "the loss, and for requires_grad_(False); parameters that are frozen on purpose belong in "
        f"no group; {HINT}"
    )
