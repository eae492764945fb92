"""What a safetensors file says it holds: read and judged without any tensor library.

8 bytes    length of the header, little endian
header     JSON: {name: {"dtype", "shape", "data_offsets": [begin, end]}, "__metadata__": ...}
tensors    back to back, without gaps
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from rlcore.errors import CheckpointError
from rlcore.reading import decode, open_regular, parse_json

BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "U16": 16, "I16": 16, "F16": 16,
    "BF16": 16, "U32": 32, "I32": 32, "F32": 32, "U64": 64, "I64": 64, "F64": 64,
}  # fmt: skip
FLOATS = frozenset({"F16", "BF16", "F32", "F64"})
"""The dtypes that weights come in."""
LONGEST_HEADER = 25_000_000  # bytes; a network of 7 billion parameters has 150 thousand
_METADATA = "__metadata__"
_NAMES_SHOWN = 8


@dataclass(frozen=True)
class TensorHeader:
    """One tensor of a file: `dtype` in safetensors' own words ("F32", "BF16", ...)."""

    dtype: str
    shape: tuple[int, ...]


def read_headers(path: Path) -> dict[str, TensorHeader]:
    """Tensors of a safetensors file, by name. Only the header is read.

    Raises:
        CheckpointError: the file is missing, can't be read, is cut off or is none.
    """
    if not path.exists():
        raise CheckpointError(f"{path.parent} holds no {path.name}")
    try:
        with open_regular(path) as file:
            actual = os.fstat(file.fileno()).st_size
            length = int.from_bytes(file.read(8), "little")
            if actual >= 8 and length > LONGEST_HEADER:
                raise ValueError("it does not begin with the length of a header")
            if actual < 8 or length > actual - 8:
                raise ValueError(f"{actual} bytes long, its header alone should have {length + 8}")
            headers, end = _parse(parse_json(decode(file.read(length))))
    except OSError as error:
        raise CheckpointError(f"{path} can't be read: {error.strerror or error}") from error
    except ValueError as error:
        raise damaged(path, str(error)) from error
    if actual != 8 + length + end:
        raise damaged(path, f"{actual} bytes long, its header says {8 + length + end}")
    return headers


def damaged(path: Path, reason: str) -> CheckpointError:
    """The error for a file that is not what it was when it was written."""
    return CheckpointError(
        f"{path} is damaged or incomplete ({reason})", hint="copy or download it again"
    )


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
    lines = [f"{kind} ({len(names)}): {_some(names)}" for kind, names in faults.items() if names]
    if lines:
        raise CheckpointError(
            f"{path} does not fit the network\n  " + "\n  ".join(lines), hint=hint
        )


def _parse(content: Any) -> tuple[dict[str, TensorHeader], int]:
    """Tensors of a header, and where the last one ends. ValueError for what is no header."""
    headers, spans = {}, []
    if not isinstance(content, dict):
        raise ValueError("its header is no mapping")
    for name, entry in content.items():
        if name == _METADATA:
            continue
        match entry:
            case {"dtype": str(dtype), "shape": [*shape], "data_offsets": [begin, end]}:
                numbers = (*shape, begin, end)
            case _:
                raise ValueError(f"its header does not say dtype, shape and place of {name}")
        if not all(type(n) is int and n >= 0 for n in numbers) or end < begin:
            raise ValueError(f"{name} has shape {shape} and place {begin} to {end}")
        if dtype not in BITS:
            raise ValueError(f"{name} has the unknown dtype {dtype!r}")
        size = prod(shape) * BITS[dtype] // 8
        if end - begin != size:
            raise ValueError(f"{name} has {end - begin} bytes, {dtype} {shape} needs {size}")
        headers[name] = TensorHeader(dtype, tuple(shape))
        spans.append((begin, end, name))
    reached = 0
    for begin, end, name in sorted(spans):
        if begin != reached:
            raise ValueError(f"{name} begins at byte {begin} instead of {reached}")
        reached = end
    return headers, reached


def _some(names: Any) -> str:
    ordered = sorted(names)
    rest = len(ordered) - _NAMES_SHOWN
    return ", ".join(ordered[:_NAMES_SHOWN]) + (f" and {rest} more" if rest > 0 else "")
