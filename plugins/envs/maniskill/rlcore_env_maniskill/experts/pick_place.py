"""Pick up a thing and carry it to a goal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from rlcore_env_maniskill.experts.arm import CLOSE, CLOSING, OPEN, Arm
from rlcore_env_maniskill.experts.way import over

# Height above the grasp at which the hand comes to a thing and leaves it, m.
HOVER = 0.06
# The fingers close when the hand is this close to the grasp (m); once they have begun to, they go
# on as long as it is within the second distance.
GRASP, GRASP_ON = 0.01, 0.02
# A released thing lies at its goal when it is this close, sideways and in height, metres.
PLACED = 0.02
UP = np.array([0.0, 0.0, 1.0])

Point = Callable[[], np.ndarray]


@dataclass(frozen=True)
class PickPlace:
    """Move above the thing, down, close, carry; with `release` also open and leave.

    The action depends on the current state alone. So a policy that sees the same state can learn
    it, and the expert returns to a thing that it dropped.

    Args:
        arm: the arm that moves.
        grasp: the point of the thing to grasp, in the world, m `[3]`.
        goal: the target of that point.
        held: whether the fingers hold the thing.
        clearance: height over the goal at which the thing is carried; 0 carries it straight there.
        release: let go at the goal and leave; otherwise keep holding it there.
    """

    arm: Arm
    grasp: Point
    goal: Point
    held: Callable[[], bool]
    clearance: float = 0.0
    release: bool = False

    def reset(self) -> None:
        """Does nothing: this expert has no memory."""

    def action(self, *, speed: float) -> np.ndarray:
        """The action for the current state, float32 `[A]`; motions scaled by `speed`."""
        grasp = self.grasp()
        way, grip = self._wish(grasp - self.arm.position, self.goal() - grasp)
        return self.arm.action(way, grip, speed=speed)

    def _wish(self, to_grasp: np.ndarray, to_goal: np.ndarray) -> tuple[np.ndarray, float]:
        """The way of the hand from here, and the gripper's command."""
        closing = self.arm.opening < CLOSING
        if self.release and _is_placed(to_goal):
            return (np.zeros(3) if closing else to_grasp + HOVER * UP), OPEN
        if self.held():
            return over(to_goal, clearance=self.clearance), CLOSE
        if np.linalg.norm(to_grasp) < (GRASP_ON if closing else GRASP):
            return to_grasp, CLOSE
        return over(to_grasp, clearance=HOVER), OPEN


def _is_placed(to_goal: np.ndarray) -> bool:
    return bool(np.linalg.norm(to_goal[:2]) < PLACED and abs(to_goal[2]) < PLACED)
