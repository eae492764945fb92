"""A scripted expert: picks up one thing from above and puts it into or onto another.

It reads where things are, which a policy never sees, and goes the same way in every task: above
the thing, down, close, up, above the other one, for a plate down to it, open. If the thing is not
in the hand on the way up, it begins again.
"""

from __future__ import annotations

from math import atan2
from typing import Any

import numpy as np

from rlcore_env_libero.grasp import choose

# Metres that the hand moves in a step at full speed, and radians that it turns.
REACH, TURN = 0.05, 0.5
# Heights of the hand in metres: above the ground while it travels; above a thing's top; and how far
# below that top it grips, as the palm stops there.
TRAVEL, ABOVE, DEPTH = 0.34, 0.06, 0.03
# How near counts as there, in metres and radians; how many steps the fingers take; after how many a
# stage is over in any case; and how far a thing that was picked up has come, in metres.
NEAR, TURNED, FINGERS, PATIENCE, LIFTED = 0.012, 0.05, 12, 40, 0.05
OPEN, CLOSE = -1.0, 1.0
START, LIFT, LOWER, RELEASE = 0, 3, 5, 6


class PickAndPlace:
    """One episode.

    Args:
        env: LIBERO's, at the start. The goal of the task's file is one thing, which is dropped
            into a region of another or put onto it.
    """

    def __init__(self, env: Any) -> None:
        ((relation, thing, target),) = env.parsed_problem["goal_state"]
        self._inside = relation == "in"
        if self._inside:
            target = env.parsed_problem["regions"][target]["target"]
        self._env = env
        self._names = thing, target
        self._thing, self._target = env.obj_body_id[thing], env.obj_body_id[target]
        self._travel = TRAVEL + env.workspace_offset[2]
        self._begin()

    def _begin(self) -> None:
        """Look for a place to grip."""
        data, model = self._env.sim.data._data, self._env.sim.model._model
        hand, yaw = self._hand(), self._yaw()
        self._grasp = choose(model, data, self._thing, hand=hand, yaw=yaw, depth=DEPTH)
        self._heading, self._rested = yaw + self._grasp.turn, data.xpos[self._thing, 2]
        self._stage, self._waited = START, 0

    def action(self) -> np.ndarray:
        """For the state now, float64 `[7]`: towards the goal of the stage."""
        data = self._env.sim.data
        hand = self._hand()
        gripped = data.xpos[self._thing, :2] + self._grasp.offset
        over = data.xpos[self._target, :2] + self._grasp.offset
        bottom, top = self._extent()
        # where to, with which grip, and whether the fingers need time
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
        there = np.linalg.norm(away) < NEAR and abs(turn) < TURNED
        if self._stage == LOWER:
            there = self._touches()
        if (self._waited > FINGERS if fingers else there) or self._waited > PATIENCE:
            self._go_on()
        moves = np.clip(away / REACH * 2.5, -1.0, 1.0)
        return np.array([*moves, 0.0, 0.0, np.clip(turn / TURN, -1.0, 1.0), grip])

    def _go_on(self) -> None:
        """To the next stage; back to the first without the thing in the hand."""
        if self._stage == LIFT and self._env.sim.data.xpos[self._thing, 2] < self._rested + LIFTED:
            self._begin()
            return
        self._stage, self._waited = min(self._stage + 1, RELEASE), 0
        if self._stage == LOWER and self._inside:
            self._stage = RELEASE

    def _hand(self) -> np.ndarray:
        """Where the point between the fingertips is, in metres `[3]`."""
        return np.array(self._env.sim.data.site_xpos[self._env.robots[0].eef_site_id])

    def _yaw(self) -> float:
        """Direction of the line between the fingers, in radians."""
        axes = self._env.sim.data.site_xmat[self._env.robots[0].eef_site_id].reshape(3, 3)
        return atan2(axes[1, 0], axes[0, 0])

    def _touches(self) -> bool:
        """Whether the thing has come down on the target."""
        thing, target = (self._env.get_object(name) for name in self._names)
        return bool(self._env.check_contact(thing, target))

    def _extent(self) -> tuple[float, float]:
        """Heights of the thing's lowest and highest point: of the boxes it is made of."""
        model, data = self._env.sim.model._model, self._env.sim.data
        mine = np.flatnonzero(model.body_rootid[model.geom_bodyid] == self._thing)
        upright = np.abs(data.geom_xmat[mine].reshape(-1, 3, 3)[:, 2])  # their axes' heights
        extents = np.minimum(model.geom_rbound[mine], (upright * model.geom_size[mine]).sum(axis=1))
        middle = data.geom_xpos[mine, 2]
        return float((middle - extents).min()), float((middle + extents).max())
