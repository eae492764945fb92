"""Scripted expert that picks up one object from above and puts it into or onto another.

The expert reads the objects' poses from the simulator, which a policy can't. It takes the same
stages in all tasks: above the object, down, close the gripper, up, above the target, down (unless
the object is dropped into the target), open the gripper. If the object is not in the hand after it
was lifted, the expert begins again.
"""

from __future__ import annotations

from math import atan2
from typing import Any

import numpy as np

from rlcore_env_libero.grasp import choose

# Metres that the hand moves in a step at full speed, and radians that it rotates.
REACH = 0.05
TURN = 0.5
# Heights of the hand in metres: above the ground while it travels; above an object's top before it
# descends; and the depth of the grip below that top, which the palm limits.
TRAVEL = 0.34
ABOVE = 0.06
DEPTH = 0.03
# Tolerances of a goal, in metres and radians; steps that the fingers take; number of steps after
# which a stage ends in any case; and least height by which a lifted object has risen, in metres.
NEAR = 0.012
TURNED = 0.05
FINGERS = 12
PATIENCE = 40
LIFTED = 0.05
OPEN = -1.0
CLOSE = 1.0
START = 0
LIFT = 3
LOWER = 5
RELEASE = 6


class PickAndPlace:
    """Expert for one episode.

    Args:
        env: LIBERO's env at the start of the episode. The goal in its task's file must be a single
            relation: an object in a region of another one, or on another one.
    """

    def __init__(self, env: Any) -> None:
        ((relation, thing, target),) = env.parsed_problem["goal_state"]
        self._inside = relation == "in"
        if self._inside:
            target = env.parsed_problem["regions"][target]["target"]
        self._env = env
        self._names = thing, target
        self._thing = env.obj_body_id[thing]
        self._target = env.obj_body_id[target]
        self._travel = TRAVEL + env.workspace_offset[2]
        self._begin()

    def _begin(self) -> None:
        """Choose a grasp for the current state, and begin with the first stage."""
        data = self._env.sim.data._data
        model = self._env.sim.model._model
        hand = self._hand()
        yaw = self._yaw()
        self._grasp = choose(model, data, self._thing, hand=hand, yaw=yaw, depth=DEPTH)
        self._heading = yaw + self._grasp.turn
        self._rested = data.xpos[self._thing, 2]
        self._stage = START
        self._waited = 0

    def action(self) -> np.ndarray:
        """Return the action for the current state, float64 `[7]`, towards the goal of the stage.

        Call this once per step: it also counts steps, and advances to the next stage.
        """
        data = self._env.sim.data
        hand = self._hand()
        gripped = data.xpos[self._thing, :2] + self._grasp.offset
        over = data.xpos[self._target, :2] + self._grasp.offset
        bottom, top = self._extent()
        # by stage: goal of the hand, gripper action, and whether to wait for the fingers
        goals = (
            ((*gripped, max(top + ABOVE, self._grasp.on_the_way)), OPEN, False),
            ((*gripped, max(top - DEPTH, self._grasp.lowest)), OPEN, False),
            (hand, CLOSE, True),
            ((*hand[:2], self._travel), CLOSE, False),
            ((*over, self._travel), CLOSE, False),
            ((*over, hand[2] + data.xpos[self._target, 2] - bottom), CLOSE, False),
            (hand, OPEN, True),
        )
        goal, grip, fingers = goals[self._stage]
        away = np.asarray(goal) - hand
        turn = self._heading - self._yaw() if self._grasp.turn else 0.0
        self._waited += 1
        arrived = np.linalg.norm(away) < NEAR and abs(turn) < TURNED
        if self._stage == LOWER:
            arrived = self._touches()
        if (self._waited > FINGERS if fingers else arrived) or self._waited > PATIENCE:
            self._go_on()
        moves = np.clip(away / REACH * 2.5, -1.0, 1.0)
        return np.array([*moves, 0.0, 0.0, np.clip(turn / TURN, -1.0, 1.0), grip])

    def _go_on(self) -> None:
        """Advance to the next stage, or begin again if the lifted object is not in the hand."""
        if self._stage == LIFT and self._env.sim.data.xpos[self._thing, 2] < self._rested + LIFTED:
            self._begin()
            return
        self._stage = min(self._stage + 1, RELEASE)
        self._waited = 0
        if self._stage == LOWER and self._inside:
            self._stage = RELEASE

    def _hand(self) -> np.ndarray:
        """Return the position of the point between the fingertips, in metres, `[3]`."""
        return np.array(self._env.sim.data.site_xpos[self._env.robots[0].eef_site_id])

    def _yaw(self) -> float:
        """Return the direction of the line between the fingers about the vertical, in radians."""
        axes = self._env.sim.data.site_xmat[self._env.robots[0].eef_site_id].reshape(3, 3)
        return atan2(axes[1, 0], axes[0, 0])

    def _touches(self) -> bool:
        """Check whether the object touches the target."""
        thing, target = (self._env.get_object(name) for name in self._names)
        return bool(self._env.check_contact(thing, target))

    def _extent(self) -> tuple[float, float]:
        """Return the heights of the lowest and highest point of the object's boxes, in metres."""
        model = self._env.sim.model._model
        data = self._env.sim.data
        mine = np.flatnonzero(model.body_rootid[model.geom_bodyid] == self._thing)
        # vertical components of the boxes' axes
        upright = np.abs(data.geom_xmat[mine].reshape(-1, 3, 3)[:, 2])
        extents = np.minimum(model.geom_rbound[mine], (upright * model.geom_size[mine]).sum(axis=1))
        middle = data.geom_xpos[mine, 2]
        return float((middle - extents).min()), float((middle + extents).max())
