"""Check what an algorithm returns against the contract: types, shapes and finite advantages.

[N] where [T, N, 1] is expected would broadcast silently. Whether a loss is finite is checked where
its gradient is used: such a step is refused, and counted. Knows no model and no env.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from rlcore.contracts.errors import AlgorithmError
from rlcore.contracts.metric import Metric
from rlcore.contracts.minibatch import Advantages
from rlcore.contracts.trajectory import Trajectory
from rlcore.run_folder.metrics import LINE, MEASURED
from rlcore.validation.policy import described_answer

Loss = tuple[Tensor, dict[str, Metric]]


def checked_advantages(name: str, trajectory: Trajectory, made: Any) -> Advantages:
    """What `advantages` gave for a trajectory.

    Raises:
        AlgorithmError: it is not as :class:`rlcore.contracts.minibatch.Advantages` says, is not
        finite,
            or trains on actions that were never executed.
    """
    if not isinstance(made, Advantages):
        raise _error(name, "advantages", "", described_answer(made), "Advantages")
    chunks, columns, actions, _ = trajectory.shape
    places = [chunks, columns]
    values = trajectory.values.shape[-1]
    for what, tensor, kind, widths in (
        ("advantages", made.advantages, torch.float32, (1, actions)),
        ("returns", made.returns, torch.float32, (values, 0)),
        ("valid", made.valid, torch.bool, (actions,)),
    ):
        shapes = [[*places, width] for width in dict.fromkeys(widths)]
        right = isinstance(tensor, Tensor) and tensor.dtype == kind
        if not right or [*tensor.shape] not in shapes:
            dtype = str(kind).removeprefix("torch.")
            expected = f"a tensor {dtype} {' or '.join(map(str, shapes))}"
            raise _error(name, "advantages", what, described_answer(tensor), expected)
        if not tensor.isfinite().all():
            chunk, column, entry = (~tensor.isfinite()).nonzero()[0].tolist()
            found = f"{float(tensor[chunk, column, entry])} in chunk {chunk} of column {column}"
            raise _error(name, "advantages", what, found, "finite numbers")
    idle = int((made.valid & ~trajectory.valid).sum())
    if idle:
        found = f"true for {idle} actions that were never executed"
        raise _error(name, "advantages", "valid", found, "false there")
    return made


def checked_loss(name: str, answer: Any, *, required: str | None = None) -> Loss:
    """What `loss` gave.

    Args:
        required: name of a metric that the update can't do without.

    Raises:
        AlgorithmError: it is not one number and metrics by name, or the required one is missing.
    """
    loss, metrics = _checked_terms(name, answer, (), "a tensor of one float []")
    if required is not None and required not in metrics:
        expected = f"{required} among them: target_kl is set"
        raise _error(name, "loss", "metrics", f"{sorted(metrics)}", expected)
    return loss, metrics


def checked_row_losses(name: str, answer: Any, rows: int) -> Loss:
    """What the loss of a step gave for so many rows of a replay.

    Raises:
        AlgorithmError: it is not a loss for each of them, and metrics by name.
    """
    return _checked_terms(name, answer, (rows,), f"a tensor of floats [{rows}], one a row")


def _checked_terms(name: str, answer: Any, shape: tuple[int, ...], expected: str) -> Loss:
    if not (isinstance(answer, tuple) and len(answer) == 2):
        raise _error(name, "loss", "", described_answer(answer), "(loss, metrics)")
    loss, metrics = answer
    if not (isinstance(loss, Tensor) and loss.is_floating_point() and loss.shape == shape):
        raise _error(name, "loss", "loss", described_answer(loss), expected)
    if not isinstance(metrics, Mapping):
        raise _error(name, "loss", "metrics", described_answer(metrics), "a dict of Metric by name")
    for key, metric in metrics.items():
        if not (isinstance(key, str) and isinstance(metric, Metric)):
            what = f"metric {key!r}"
            raise _error(name, "loss", what, described_answer(metric), "a Metric")
        if key.startswith(MEASURED) or key in LINE:
            what, found = f"metric {key!r}", "a field of every line of metrics.jsonl"
            raise _error(name, "loss", what, found, "another name")
    return loss, dict(metrics)


def _error(name: str, call: str, what: str, found: str, expected: str) -> AlgorithmError:
    part = f" as {what}" if what else ""
    return AlgorithmError(
        f"algorithm {name}: {call}() gave{part} {found}, expected {expected}",
        hint="the algorithm is at fault, not a training setting: see "
        "rlcore.contracts.protocols.Algorithm; rlcore_testing.check_algorithm finds more such "
        "mistakes",
    )
