"""Start points and yaws of objects and plates. Values of RL4VLA, in metres.

Start points are on a grid above the table. A layout is the list of all combinations of grid points
that are far enough apart, in the order of the values of factor `place`. The `slots` of a
combination are (object, plate) or (object, plate, third place).
"""

from __future__ import annotations

import itertools
import math
from functools import cache

import numpy as np

CENTRE = np.array([-0.16, 0.0])
HALF_EDGE = 0.075
CLEARANCE = 0.07  # between an object and a plate
WIDE_CLEARANCE = 0.15  # between two objects, or two plates

TRAINING_YAWS = tuple(math.radians(angle) for angle in (0, 45, 90, 135))
HELD_OUT_YAWS = tuple(math.radians(angle) for angle in (-22.5, -67.5, -112.5, -157.5))


def grid(steps: tuple[float, ...]) -> np.ndarray:
    """Return the points steps x steps, m `[P, 2]`, first axis slowest; steps 0 and 1 are edges."""
    square = np.array(list(itertools.product(steps, steps)))
    # keep this order of operations: whether a distance of 0.15 exceeds 0.15 depends on the last bit
    return (square * 2 - 1) * HALF_EDGE + CENTRE


def inner_grid() -> np.ndarray:
    """Return the 36 points of training, m `[36, 2]`."""
    return grid((0.0, 0.2, 0.4, 0.6, 0.8, 1.0))


def outer_ring() -> np.ndarray:
    """Return the 28 points one grid step outside of :func:`inner_grid`, m `[28, 2]`."""
    steps = (-0.2, 0.0, 0.2, 0.4, 0.6, 0.8, 1.0, 1.2)
    on_ring = [-0.2 in point or 1.2 in point for point in itertools.product(steps, steps)]
    return grid(steps)[on_ring]


def pairs(points: np.ndarray) -> np.ndarray:
    """Return all (object, plate) pairs of points `[P, 2]` over 0.07 m apart, m `[N, 2, 2]`."""
    chosen = np.argwhere(_distances(points) > CLEARANCE)
    return points[chosen]


@cache
def triples(wide: str) -> np.ndarray:
    """Return all (object, plate, third place) on the grid of training, m `[N, 3, 2]`.

    Args:
        wide: "object" or "plate", from which the third place is more than 0.15 m away; it is more
            than 0.07 m away from the other.
    """
    points = inner_grid()
    distances = _distances(points)
    to_object = WIDE_CLEARANCE if wide == "object" else CLEARANCE
    to_plate = WIDE_CLEARANCE if wide == "plate" else CLEARANCE
    allowed = (
        (distances > CLEARANCE)[:, :, None]
        & (distances > to_plate)[None, :, :]
        & (distances > to_object)[:, None, :]
    )
    return points[np.argwhere(allowed)]


def corners() -> np.ndarray:
    """Return PutCarrotOnPlateInScene's 12 (object, plate) pairs of four corners, m `[12, 2, 2]`."""
    points = grid((0.0, 1.0))
    chosen = list(itertools.permutations(range(len(points)), 2))
    return points[np.array(chosen)]


@cache
def arm_offsets() -> np.ndarray:
    """Return offsets of the six arm joints, rad `[14375, 6]`; the first is zero, as in training.

    Shoulder and elbow must not both lean in the same direction: the magnitude of their sum is at
    most 0.25 rad.
    """
    small = (-0.15, -0.08, 0.0, 0.08, 0.15)
    large = (-0.6, -0.3, 0.0, 0.3, 0.6)
    every = np.array(list(itertools.product(*[small] * 5, large)))
    offsets = every[(np.abs(every[:, 1] + every[:, 2]) <= 0.25) & every.any(axis=1)]
    return np.concatenate([np.zeros((1, 6)), offsets])


def _distances(points: np.ndarray) -> np.ndarray:
    return np.linalg.norm(points[:, None] - points[None], axis=-1)
