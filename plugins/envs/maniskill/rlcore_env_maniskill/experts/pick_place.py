"""Pick a thing up and bring it to a goal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlcore_env_maniskill.experts.arm import CLOSE, OPEN, Arm, row
from rlcore_env_maniskill.experts.way import over

# Metres above a thing at which the hand comes to it and leaves it.
HOVER = 0.06
# The fingers close when the hand is this close to its grasp (metres), and once they
# have begun to (`opening` below CLOSING) they go on while it is within the second distance.
GRASP, GRASP_ON = 0.01, 0.02
CLOSING = 0.9
# A thing farther from the fingers than this is not held, whatever the contacts say: after a reset
# ManiSkill still reports those of the last step of the episode before.
HELD = 0.05
# A released thing lies at its goal when it is this close, sideways and in height, metres.
PLACED = 0.02
UP = np.array([0.0, 0.0, 1.0])


@dataclass(frozen=True)
class PickPlace:
    """Above, down, close, carry, and where asked for open and leave.

    What to do follows from the state alone, so that a policy which sees the same state can learn
    it, and so that the expert goes back to the thing when it was lost.

    Args:
        arm: the arm that does it.
        thing: the actor to pick up.
        goal: where its centre should get, in the world, metres, `[3]`.
        clearance: height over the goal at which it is carried; 0 carries it straight there.
        release: let go at the goal and leave; otherwise hold it there.
    """

    arm: Arm
    thing: Any
    goal: Callable[[], np.ndarray]
    clearance: float = 0.0
    release: bool = False

    def reset(self) -> None:
        """Nothing is remembered."""

    def action(self, *, speed: float) -> np.ndarray:
        """The action for the current state, float32 `[7]`; motions scaled by `speed`."""
        thing = row(self.thing.pose.p)
        to_thing, to_goal = thing - self.arm.position, self.goal() - thing
        held = bool(np.linalg.norm(to_thing) < HELD) and self.arm.holds(self.thing)
        way, grip = self._wish(to_thing, to_goal, held=held)
        return self.arm.action(way, grip, speed=speed)

    def _wish(
        self, to_thing: np.ndarray, to_goal: np.ndarray, *, held: bool
    ) -> tuple[np.ndarray, float]:
        if self.release and _is_placed(to_goal):
            # away from the thing only once the fingers are off it
            return (np.zeros(3) if held else to_thing + HOVER * UP), OPEN
        if held:
            return over(to_goal, clearance=self.clearance), CLOSE
        reach = GRASP if self.arm.opening > CLOSING else GRASP_ON
        if np.linalg.norm(to_thing) < reach:
            return to_thing, CLOSE
        return over(to_thing, clearance=HOVER), OPEN


def _is_placed(to_goal: np.ndarray) -> bool:
    return bool(np.linalg.norm(to_goal[:2]) < PLACED and abs(to_goal[2]) < PLACED)
