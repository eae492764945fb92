"""Check names, shapes and dtypes in weight files against a network. No tensor library."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import prod
from pathlib import Path

from rlcore.contracts.errors import CheckpointError
from rlcore.files.safetensors_header import TensorHeader, read_headers
from rlcore.utils.text import abbreviate_list

__all__ = ["FLOATS", "TensorHeader", "check_fit", "count", "read_headers"]

FLOATS = frozenset({"F16", "BF16", "F32", "F64"})
"""The dtypes of safetensors that weights may have."""


def count(shapes: Mapping[str, tuple[int, ...]]) -> int:
    """Return the total number of elements of tensors with these shapes."""
    return sum(map(prod, shapes.values()))


def check_fit(
    path: Path,
    stored: Mapping[str, TensorHeader],
    expected: Mapping[str, tuple[int, ...]],
    *,
    hint: str,
    drawn: Collection[str] = (),
) -> None:
    """Check that stored weights have the names and shapes of a network, and are floating point.

    Args:
        path: file or folder of the weights, for the message.
        stored: headers of the stored weights.
        expected: shapes of the network's parameters.
        hint: hint of the error.
        drawn: names of parameters that may all be missing, as the model draws them: those of a
            critic, which a checkpoint of supervised training lacks.

    Raises:
        CheckpointError: they don't; one error lists all faults.
    """
    if not stored.keys() & set(drawn):
        expected = {name: shape for name, shape in expected.items() if name not in drawn}
    common = stored.keys() & expected.keys()
    if stored and expected and not common:
        raise CheckpointError(
            f"{path} has the weights of another model: {len(stored)} tensors, such as "
            f"{min(stored)}, and none of this network's, such as {min(expected)}",
            hint="choose the model=NAME that it is of, or another folder",
        )
    faults = {
        "missing": expected.keys() - stored.keys(),
        "unexpected": stored.keys() - expected.keys(),
        "wrong shape": {
            f"{name} is {list(stored[name].shape)}, the network's is {list(expected[name])}"
            for name in common
            if stored[name].shape != tuple(expected[name])
        },
        "not floating point": {
            f"{name} is {stored[name].dtype}" for name in common if stored[name].dtype not in FLOATS
        },
    }
    lines = [
        f"{kind} ({len(names)}): {abbreviate_list(sorted(names))}"
        for kind, names in faults.items()
        if names
    ]
    if lines:
        raise CheckpointError(
            f"{path} does not fit the network\n  " + "\n  ".join(lines), hint=hint
        )
