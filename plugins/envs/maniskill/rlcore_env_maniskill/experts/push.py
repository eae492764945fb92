"""Push a thing along the table into a goal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rlcore_env_maniskill.experts.arm import CLOSE, Arm, row
from rlcore_env_maniskill.experts.way import over

# The hand comes down BEHIND metres behind the centre of the thing; it passes HOVER above it.
BEHIND, HOVER = 0.06, 0.08
# The hand pushes if it is lower than LOW metres above the thing's centre, farther than TOUCH behind
# it and less than ASIDE off the line.
LOW, TOUCH, ASIDE = 0.02, 0.015, 0.015


@dataclass(frozen=True)
class Push:
    """Move behind the thing, down, then towards the goal with closed fingers.

    The action depends on the current state alone.

    Args:
        arm: the arm that moves.
        thing: the actor to push, on the table.
        goal: the actor that marks the goal.
    """

    arm: Arm
    thing: Any
    goal: Any

    def reset(self) -> None:
        """Does nothing: this expert has no memory."""

    def action(self, *, speed: float) -> np.ndarray:
        """The action for the current state, float32 `[A]`; motions scaled by `speed`."""
        thing = row(self.thing.pose.p)
        to_thing, to_goal = thing - self.arm.position, row(self.goal.pose.p) - thing
        return self.arm.action(self._way(to_thing, to_goal), CLOSE, speed=speed)

    def _way(self, to_thing: np.ndarray, to_goal: np.ndarray) -> np.ndarray:
        distance = float(np.linalg.norm(to_goal[:2]))
        ahead = np.array([*to_goal[:2], 0.0]) / max(distance, 1e-6)
        behind = float(to_thing @ ahead)
        aside = to_thing - behind * ahead
        aside[2] = 0.0
        low = -to_thing[2] < LOW
        if low and behind > TOUCH and np.linalg.norm(aside) < ASIDE:
            return distance * ahead + aside + [0.0, 0.0, to_thing[2]]
        return over(to_thing - BEHIND * ahead, clearance=HOVER)
