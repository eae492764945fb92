"""What an episode changes in a compiled model, so that one can be used for the next episode.

Compiling a model takes up to seconds, putting it back as it was built a few microseconds. Most of a
model never changes; simulators move bodies, sites or lights in a few of its arrays.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter

import mujoco
import numpy as np


class Kept:
    """Values of some arrays of a model: as it was built, or as one of its users left it.

    Args:
        model: whose values are taken.
        names: of its arrays, e.g. "body_pos".
    """

    def __init__(self, model: mujoco.MjModel, names: Iterable[str]) -> None:
        self._values = {name: array_of(model, name).copy() for name in names}

    def take(self, model: mujoco.MjModel) -> None:
        """Remember the values that the arrays have now."""
        for name, values in self._values.items():
            values[:] = array_of(model, name)

    def put(self, model: mujoco.MjModel) -> None:
        """Set the arrays of a model to the values; shows after the next forward pass."""
        for name, values in self._values.items():
            array_of(model, name)[:] = values


def array_of(model: mujoco.MjModel, name: str) -> np.ndarray:
    """An array of a model by name, not a copy."""
    array: np.ndarray = attrgetter(name)(model)
    return array


def differing_arrays(model: mujoco.MjModel, other: mujoco.MjModel) -> set[str]:
    """Names of the arrays in which two models differ.

    It tells a plugin's tests that its simulators keep all they change: a model that has been used,
    against one that was just built.
    """
    names = (name for name in dir(mujoco.MjModel) if not name.startswith("_"))
    arrays = (name for name in names if isinstance(attrgetter(name)(model), np.ndarray))
    return {name for name in arrays if not _equal(array_of(model, name), array_of(other, name))}


def _equal(one: np.ndarray, other: np.ndarray) -> bool:
    """Degenerate meshes have normals that are no numbers."""
    return np.array_equal(one, other, equal_nan=one.dtype.kind == "f")
