"""Save and restore what an episode changes in a compiled model, so that models can be reused.

Compiling a model takes up to seconds, restoring it a few microseconds. Most of a model never
changes: simulators move bodies, sites or lights in a few of its arrays.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter

import mujoco
import numpy as np


class Kept:
    """Saved values of some arrays of a model, e.g. those of the newly compiled model.

    Args:
        model: model from which the values are copied.
        names: names of the arrays, e.g. "body_pos".
    """

    def __init__(self, model: mujoco.MjModel, names: Iterable[str]) -> None:
        self._values = {name: array_of(model, name).copy() for name in names}

    def take(self, model: mujoco.MjModel) -> None:
        """Save the current values of the arrays."""
        for name, values in self._values.items():
            values[:] = array_of(model, name)

    def put(self, model: mujoco.MjModel) -> None:
        """Write the saved values into a model. They take effect in the next forward pass."""
        for name, values in self._values.items():
            array_of(model, name)[:] = values


def array_of(model: mujoco.MjModel, name: str) -> np.ndarray:
    """Return an array of a model as a view; the name may have dots ("vis.rgba.haze")."""
    array: np.ndarray = attrgetter(name)(model)
    return array


def differing_arrays(model: mujoco.MjModel, other: mujoco.MjModel) -> set[str]:
    """Return the names of the arrays in which two models differ.

    Tests of plugins compare a used model with a newly compiled one, to check that the plugin's
    simulators restore all arrays that they change.
    """
    names = (name for name in dir(mujoco.MjModel) if not name.startswith("_"))
    arrays = (name for name in names if isinstance(attrgetter(name)(model), np.ndarray))
    return {name for name in arrays if not _equal(array_of(model, name), array_of(other, name))}


def _equal(first: np.ndarray, second: np.ndarray) -> bool:
    """Compare two arrays; NaNs are equal, because degenerate meshes have NaN normals."""
    return np.array_equal(first, second, equal_nan=first.dtype.kind == "f")
