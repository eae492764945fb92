"""Push a thing along the table into a goal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rlcore_env_maniskill.experts.arm import CLOSE, Arm, row
from rlcore_env_maniskill.experts.way import over

# Metres behind the centre of the thing where the hand comes down; over it, it passes HOVER above.
BEHIND, HOVER = 0.06, 0.08
# The hand pushes from where it is lower than LOW metres above the thing's centre, farther behind
# it than TOUCH and less than ASIDE off its line.
LOW, TOUCH, ASIDE = 0.02, 0.015, 0.015


@dataclass(frozen=True)
class Push:
    """Behind the thing, down, and on towards the goal with closed fingers; decided by state alone.

    Args:
        arm: the arm that does it.
        thing: the actor to push, on the table.
        goal: the actor that marks where to.
    """

    arm: Arm
    thing: Any
    goal: Any

    def reset(self) -> None:
        """Nothing is remembered."""

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
