"""Check that the headers of weight files fit a network: names, shapes and dtypes. Loads no tensor
library."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from pathlib import Path

from rlcore.contracts.errors import CheckpointError
from rlcore.files.safetensors_header import TensorHeader, read_headers
from rlcore.terminal.text import some

__all__ = ["FLOATS", "TensorHeader", "check_fit", "count", "read_headers"]

FLOATS = frozenset({"F16", "BF16", "F32", "F64"})
"""The dtypes that weights come in."""


def count(shapes: Mapping[str, tuple[int, ...]]) -> int:
    """Numbers in tensors of these shapes."""
    return sum(map(prod, shapes.values()))


def check_fit(
    path: Path,
    stored: Mapping[str, TensorHeader],
    wanted: Mapping[str, tuple[int, ...]],
    *,
    hint: str,
) -> None:
    """Refuse weights of other names, shapes or kinds than a network has.

    Args:
        path: where they are stored, for the message.
        stored: what is there.
        wanted: shapes of the network's parameters.
        hint: what to do about it.

    Raises:
        CheckpointError: one error for all that does not fit.
    """
    common = stored.keys() & wanted.keys()
    if stored and wanted and not common:
        raise CheckpointError(
            f"{path} has the weights of another model: {len(stored)} tensors, such as "
            f"{min(stored)}, and none of this network's, such as {min(wanted)}",
            hint="choose the model=NAME that it is of, or another folder",
        )
    faults = {
        "missing": wanted.keys() - stored.keys(),
        "unexpected": stored.keys() - wanted.keys(),
        "wrong shape": {
            f"{name} is {list(stored[name].shape)}, the network's is {list(wanted[name])}"
            for name in common
            if stored[name].shape != tuple(wanted[name])
        },
        "not floating point": {
            f"{name} is {stored[name].dtype}" for name in common if stored[name].dtype not in FLOATS
        },
    }
    lines = [
        f"{kind} ({len(names)}): {some(sorted(names))}" for kind, names in faults.items() if names
    ]
    if lines:
        raise CheckpointError(
            f"{path} does not fit the network\n  " + "\n  ".join(lines), hint=hint
        )
