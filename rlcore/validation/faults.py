"""Describe how a third-party component's return value breaks its contract.

Knows arrays, no env and no policy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rlcore.contracts.errors import UserError

NUMBERS = "fiub"  # kinds of types that hold numbers


@dataclass(frozen=True)
class Fault:
    """What is wrong with a value.

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


def array_fault(
    what: str, value: Any, dtype: Any, shape: tuple[int, ...], kinds: str = ""
) -> Fault | None:
    """Check that it is a numpy array of this shape, and of this type or one of these kinds."""
    right = isinstance(value, np.ndarray) and value.shape == shape
    if right and (value.dtype == dtype or value.dtype.kind in kinds):
        return None
    wanted = f"{np.dtype(dtype)} {list(shape)}"
    return Fault(what, described(value), wanted, f"give a numpy array {wanted}")


def first_fault(
    bad: np.ndarray, what: str, values: np.ndarray | str, expected: str, hint: str
) -> Fault | None:
    """The first place `[B]` or `[B, C]` that is bad, with its value or a word for it."""
    if not bad.any():
        return None
    place = tuple(np.argwhere(bad)[0].tolist())
    found = values if isinstance(values, str) else str(values[place].tolist())
    step = place[1] if len(place) > 1 else None
    return Fault(what, found, expected, hint, place[0], step)


def require_made(
    made: Any,
    name: str,
    target: str,
    expected: str,
    holds: tuple[str, type],
    error: type[UserError],
) -> None:
    """Check what a component's factory returned.

    Args:
        name, target, expected: for the error: "env toy", "module:make", "an env".
        holds: an attribute that it must have, and its type.
    """
    attribute, kind = holds
    # a plugin's object may lack the attribute
    if isinstance(made, type) or not isinstance(getattr(made, attribute, None), kind):
        found = f"the class {made.__qualname__}" if isinstance(made, type) else described(made)
        raise error(
            f"{name}: {target} gave {found}, expected {expected} with its {attribute}",
            hint=f"the {name.partition(' ')[0]} is at fault: see rlcore.contracts.protocols",
        )


def described(value: Any) -> str:
    """Type and shape, to be read behind "is"."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {list(value.shape)}"
    return kind_of(value)


def kind_of(value: Any) -> str:
    """Its type, to be read behind "is"."""
    kind = type(value)
    return f"a {kind.__qualname__}" if kind.__module__ == "builtins" else (
        f"a {kind.__module__}.{kind.__qualname__}"
    )  # fmt: skip
