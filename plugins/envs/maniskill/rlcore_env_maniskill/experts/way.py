"""A way over obstacles: up, across, down, as one smooth function of the hand's position."""

from __future__ import annotations

import numpy as np

# Within NEAR metres of the target (horizontally) the hand may go all the way down; beyond FAR it
# keeps the full clearance.
NEAR, FAR = 0.01, 0.05


def over(way: np.ndarray, *, clearance: float) -> np.ndarray:
    """Bend the straight way to a target so that the hand comes from above.

    Far from the target the hand aims `clearance` above it, and moves sideways the more slowly the
    more it still has to rise. Near the target it goes down as through a funnel.

    Args:
        way: from the hand to the target, metres, `[3]`, z up.
        clearance: height above the target at which to move across, metres; 0: the straight way.
    """
    if not clearance:
        return way
    aside = float(np.linalg.norm(way[:2]))
    rise = way[2] + clearance * smooth_step((aside - NEAR) / (FAR - NEAR))
    across = way[:2] * (1.0 - smooth_step(rise / clearance))
    return np.array([*across, rise])


def smooth_step(x: float) -> float:
    """0 below 0, 1 above 1, with a continuous slope between."""
    x = min(max(x, 0.0), 1.0)
    return x * x * (3.0 - 2.0 * x)
