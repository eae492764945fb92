"""Describe how a value that a third-party component returned breaks its contract.

Depends on no env and no policy.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlcore.contracts.errors import UserError

NUMBERS = "fiub"  # numpy dtype kinds of real numbers: float, int, unsigned, bool


@dataclass(frozen=True)
class Fault:
    """An invalid value.

    Attributes:
        what: name of the array, and of the entry by its meaning.
        actual, expected: texts that complete "WHAT is ACTUAL, expected EXPECTED".
        hint: how to correct the component.
        row: row of the vector env; None if the fault is not specific to a row.
        step: step of the chunk or demonstration; None if the fault is not specific to a step.
    """

    what: str
    actual: str
    expected: str
    hint: str
    row: int | None = None
    step: int | None = None

    def __str__(self) -> str:
        return f"{self.what} is {self.actual}, expected {self.expected}"


def first_of(faults: Iterable[Fault | None]) -> Fault | None:
    """Return the first fault that is not None; later ones are not computed."""
    return next(filter(None, faults), None)


def array_fault(
    what: str, value: Any, dtype: Any, shape: tuple[int, ...], kinds: str = ""
) -> Fault | None:
    """Check that a value is a numpy array of the given shape and dtype.

    Args:
        what: name of the array, for the fault.
        kinds: numpy dtype kinds that are accepted too, such as :data:`NUMBERS`.
    """
    right = isinstance(value, np.ndarray) and value.shape == shape
    if right and (value.dtype == dtype or value.dtype.kind in kinds):
        return None
    required = f"{np.dtype(dtype)} {list(shape)}"
    return Fault(what, describe(value), required, f"give a numpy array {required}")


def entry_fault(
    bad: np.ndarray, what: str, values: np.ndarray | str, expected: str, hint: str
) -> Fault | None:
    """Return a fault for the first true entry of `bad`, or None.

    Args:
        bad: bool `[B]` or `[B, C]`.
        what, expected, hint: see :class:`Fault`.
        values: array with an entry for each of `bad`, from which the fault takes the actual value,
            or a text for it.
    """
    if not bad.any():
        return None
    index = tuple(np.argwhere(bad)[0].tolist())
    actual = values if isinstance(values, str) else str(values[index].tolist())
    step = index[1] if len(index) > 1 else None
    return Fault(what, actual, expected, hint, index[0], step)


def require_component(
    component: Any,
    name: str,
    target: str,
    expected: str,
    attribute: tuple[str, type],
    error: type[UserError],
) -> None:
    """Check what the factory of a component returned.

    Args:
        component: returned object.
        name, target, expected: texts for the error, such as "env toy", "module:make", "an env".
        attribute: name of an attribute that the object must have, and its type.
        error: class of the error.

    Raises:
        UserError: an `error`: the object is a class, or lacks the attribute.
    """
    attribute_name, kind = attribute
    is_class = isinstance(component, type)
    # a plugin's object may lack the attribute
    if is_class or not isinstance(getattr(component, attribute_name, None), kind):
        actual = f"the class {component.__qualname__}" if is_class else describe(component)
        raise error(
            f"{name}: {target} gave {actual}, expected {expected} with its {attribute_name}",
            hint=f"the {name.partition(' ')[0]} is at fault: see rlcore.contracts.protocols",
        )


def describe(value: Any) -> str:
    """Return a text that follows "is": an array's dtype and shape, or the type of another value."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {list(value.shape)}"
    return describe_type(value)


def describe_type(value: Any) -> str:
    """Return a text that follows "is": the type of a value."""
    kind = type(value)
    module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    return f"a {module}{kind.__qualname__}"
