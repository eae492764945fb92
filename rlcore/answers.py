"""An answer of a stranger's part, held against what was due: what is wrong with it, in words.

Knows arrays, no env and no policy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

NUMBERS = "fiub"  # kinds of types that hold numbers


@dataclass(frozen=True)
class Fault:
    """Something that can't be.

    Attributes:
        what: the array, and the entry by its meaning.
        found, expected: behind "is" and "expected".
        hint: how to mend it.
        row: of the vector env; None if it concerns several.
        step: of the chunk or the demonstration; None if it concerns several.
    """

    what: str
    found: str
    expected: str
    hint: str
    row: int | None = None
    step: int | None = None

    def __str__(self) -> str:
        return f"{self.what} is {self.found}, expected {self.expected}"


def array_fault(what: str, value: Any, dtype: Any, shape: tuple[int, ...]) -> Fault | None:
    """Whether it is a numpy array of exactly this type and shape."""
    if isinstance(value, np.ndarray) and value.dtype == dtype and value.shape == shape:
        return None
    wanted = f"{np.dtype(dtype)} {list(shape)}"
    return Fault(what, described(value), wanted, f"give a numpy array {wanted}")


def described(value: Any) -> str:
    """Type and shape."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {list(value.shape)}"
    return kind_of(value)


def kind_of(value: Any) -> str:
    """Its type, for behind "is"."""
    kind = type(value)
    return f"a {kind.__qualname__}" if kind.__module__ == "builtins" else (
        f"a {kind.__module__}.{kind.__qualname__}"
    )  # fmt: skip


def numbers_fault(what: str, value: Any, shape: tuple[int, ...]) -> Fault | None:
    """Numbers of any type; whether they are finite in float32 is looked at by row."""
    if isinstance(value, np.ndarray) and value.shape == shape and value.dtype.kind in NUMBERS:
        return None
    wanted = f"float32 {list(shape)}"
    return Fault(what, described(value), wanted, f"give a numpy array {wanted}")


def first_fault(
    bad: np.ndarray, what: str, values: np.ndarray | str, expected: str, hint: str
) -> Fault | None:
    """The first place `[B]` or `[B, C]` that is bad, with its value or a word for it."""
    if not bad.any():
        return None
    place = tuple(int(index) for index in np.argwhere(bad)[0])
    found = values if isinstance(values, str) else str(values[place].tolist())
    step = place[1] if len(place) > 1 else None
    return Fault(what, found, expected, hint, place[0], step)
