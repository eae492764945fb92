"""Check the types and shapes of what an algorithm's losses return against the contract.

Whether a loss is finite is checked where its gradient is used; a step whose gradients are not
finite is skipped and counted. Depends on no model and no env.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from rlcore.contracts.errors import AlgorithmError
from rlcore.contracts.metric import Metric
from rlcore.runs.metrics import LINE, MEASURED
from rlcore.validation.policy import describe_answer

Loss = tuple[Tensor, dict[str, Metric]]


def checked_row_losses(name: str, answer: Any, rows: int) -> Loss:
    """Check and return what a :data:`rlcore.contracts.learning.RowLoss` returned.

    Args:
        name: name of the algorithm, for error messages.
        answer: returned value: losses `[rows]`, and metrics by name.
        rows: number of rows of the replay for which the loss was called.

    Raises:
        AlgorithmError: `answer` breaks the contract; see :func:`check_terms`.
    """
    return check_terms(name, answer, (rows,), f"a tensor of floats [{rows}], one a row")


def check_terms(
    name: str, answer: Any, shape: tuple[int, ...] = (), expected: str = "a tensor of one float []"
) -> Loss:
    """Check and return what a loss returned: a floating-point tensor, and metrics by name.

    Args:
        name: name of the algorithm, for error messages.
        answer: returned value.
        shape: required shape of the tensor.
        expected: description of the required tensor, for error messages.

    Raises:
        AlgorithmError: `answer` has another type or shape, or a metric has a name that the training
            loop uses for its own measurements.
    """
    if not (isinstance(answer, tuple) and len(answer) == 2):
        raise algorithm_error(name, "loss", "", describe_answer(answer), "(loss, metrics)")
    loss, metrics = answer
    if not (isinstance(loss, Tensor) and loss.is_floating_point() and loss.shape == shape):
        raise algorithm_error(name, "loss", "loss", describe_answer(loss), expected)
    if not isinstance(metrics, Mapping):
        raise algorithm_error(
            name, "loss", "metrics", describe_answer(metrics), "a dict of Metric by name"
        )
    for key, metric in metrics.items():
        what = f"metric {key!r}"
        if not (isinstance(key, str) and isinstance(metric, Metric)):
            raise algorithm_error(name, "loss", what, describe_answer(metric), "a Metric")
        if key.startswith(MEASURED) or key in LINE:
            actual = "a field of every line of metrics.jsonl"
            raise algorithm_error(name, "loss", what, actual, "another name")
    return loss, dict(metrics)


def algorithm_error(name: str, call: str, what: str, actual: str, expected: str) -> AlgorithmError:
    """Return the error about an invalid value that a call of an algorithm returned.

    Args:
        name: name of the algorithm.
        call: name of the method or loss.
        what: invalid part of the value; empty: the whole value.
        actual: description of that part.
        expected: description of a valid value.
    """
    part = f" as {what}" if what else ""
    return AlgorithmError(
        f"algorithm {name}: {call}() gave{part} {actual}, expected {expected}",
        hint="the algorithm is at fault, not a training setting: see "
        "rlcore.contracts.protocols.Algorithm; rlcore check algorithm NAME finds more such "
        "mistakes",
    )
