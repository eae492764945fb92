"""Check what the losses of an algorithm return against the contract: types and shapes.

Whether a loss is finite is checked where
its gradient is used: such a step is refused, and counted. Knows no model and no env.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from rlcore.contracts.errors import AlgorithmError
from rlcore.contracts.metric import Metric
from rlcore.run_folder.metrics import LINE, MEASURED
from rlcore.validation.policy import described_answer

Loss = tuple[Tensor, dict[str, Metric]]


def checked_row_losses(name: str, answer: Any, rows: int) -> Loss:
    """Check what the loss of a step gave for so many rows of a replay.

    Raises:
        AlgorithmError: it is not a loss for each of them, and metrics by name.
    """
    return checked_terms(name, answer, (rows,), f"a tensor of floats [{rows}], one a row")


def checked_terms(
    name: str, answer: Any, shape: tuple[int, ...] = (), expected: str = "a tensor of one float []"
) -> Loss:
    """Check what a loss gave: a tensor of this shape, and metrics by name.

    Raises:
        AlgorithmError: it is another thing, or a metric has the name of what the loop measures.
    """
    if not (isinstance(answer, tuple) and len(answer) == 2):
        raise fault(name, "loss", "", described_answer(answer), "(loss, metrics)")
    loss, metrics = answer
    if not (isinstance(loss, Tensor) and loss.is_floating_point() and loss.shape == shape):
        raise fault(name, "loss", "loss", described_answer(loss), expected)
    if not isinstance(metrics, Mapping):
        raise fault(name, "loss", "metrics", described_answer(metrics), "a dict of Metric by name")
    for key, metric in metrics.items():
        if not (isinstance(key, str) and isinstance(metric, Metric)):
            what = f"metric {key!r}"
            raise fault(name, "loss", what, described_answer(metric), "a Metric")
        if key.startswith(MEASURED) or key in LINE:
            what, found = f"metric {key!r}", "a field of every line of metrics.jsonl"
            raise fault(name, "loss", what, found, "another name")
    return loss, dict(metrics)


def fault(name: str, call: str, what: str, found: str, expected: str) -> AlgorithmError:
    """Return the error about what a call of an algorithm gave, as a whole or as `what`."""
    part = f" as {what}" if what else ""
    return AlgorithmError(
        f"algorithm {name}: {call}() gave{part} {found}, expected {expected}",
        hint="the algorithm is at fault, not a training setting: see "
        "rlcore.contracts.protocols.Algorithm; rlcore check algorithm NAME finds more such "
        "mistakes",
    )
