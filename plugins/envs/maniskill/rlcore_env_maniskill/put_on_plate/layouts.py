"""Where objects and plates start, and how they are rotated. Values of RL4VLA, in metres.

Starts lie on a grid above the table. A layout is the list of all combinations of grid points that
are far enough apart, in the order in which ids count them; the `slots` of a combination are
(object, plate) or (object, plate, third place).
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
    """The points steps x steps, first axis slowest; 0 and 1 are the edges. Returns `[P, 2]`."""
    square = np.array(list(itertools.product(steps, steps)))
    # keep this order of operations: whether a distance of 0.15 exceeds 0.15 depends on the last bit
    return (square * 2 - 1) * HALF_EDGE + CENTRE


def inner_grid() -> np.ndarray:
    """The 36 points of training `[36, 2]`."""
    return grid((0.0, 0.2, 0.4, 0.6, 0.8, 1.0))


def outer_ring() -> np.ndarray:
    """The 28 points around them `[28, 2]`, one grid step further out."""
    steps = (-0.2, 0.0, 0.2, 0.4, 0.6, 0.8, 1.0, 1.2)
    on_ring = [-0.2 in point or 1.2 in point for point in itertools.product(steps, steps)]
    return grid(steps)[on_ring]


def pairs(points: np.ndarray) -> np.ndarray:
    """(object, plate) `[N, 2, 2]` of points `[P, 2]`."""
    chosen = np.argwhere(_distances(points) > CLEARANCE)
    return points[chosen]


@cache
def triples(wide: str) -> np.ndarray:
    """(object, plate, third place) `[N, 3, 2]` on the grid of training.

    Args:
        wide: the third place is at least 0.15 m from this, "object" or "plate", and 0.07 m from
            the other.
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
    """The 12 (object, plate) pairs of the four corners `[12, 2, 2]`: PutCarrotOnPlateInScene."""
    points = grid((0.0, 1.0))
    chosen = list(itertools.permutations(range(len(points)), 2))
    return points[np.array(chosen)]


@cache
def arm_offsets() -> np.ndarray:
    """Offsets of the six arm joints in rad `[14375, 6]`; only the first is zero, as in training.

    Shoulder and elbow must not both lean the same way: their sum stays within 0.25 rad.
    """
    small, large = (-0.15, -0.08, 0.0, 0.08, 0.15), (-0.6, -0.3, 0.0, 0.3, 0.6)
    every = np.array(list(itertools.product(*[small] * 5, large)))
    kept = every[(np.abs(every[:, 1] + every[:, 2]) <= 0.25) & every.any(axis=1)]
    return np.concatenate([np.zeros((1, 6)), kept])


def _distances(points: np.ndarray) -> np.ndarray:
    return np.linalg.norm(points[:, None] - points[None], axis=-1)
