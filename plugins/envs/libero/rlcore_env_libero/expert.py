"""A scripted expert: picks up one thing from above and drops it into a container.

It reads where things are, which a policy never sees, and goes the same way in every task of
libero_object: above the thing, down, close, up, above the basket, open.
"""

from __future__ import annotations

from typing import Any

import numpy as np

# Metres that the hand moves in a step at full speed.
REACH = 0.05
# Heights of the hand in metres: while it travels; above a thing's top; how far below that top it
# grips, as the palm stops there; and the lowest one, where the fingers touch the floor.
TRAVEL, ABOVE, DEPTH, LOWEST = 0.34, 0.06, 0.03, 0.015
# How near counts as there, in metres; how many steps the fingers take; and after how many a stage
# is over in any case.
NEAR, FINGERS, PATIENCE = 0.012, 12, 40
OPEN, CLOSE = -1.0, 1.0


class PickAndPlace:
    """One episode.

    Args:
        env: LIBERO's, at the start.
        thing, container: names of the goal.
    """

    def __init__(self, env: Any, thing: str, container: str) -> None:
        self._env = env
        self._thing, self._container = env.obj_body_id[thing], env.obj_body_id[container]
        self._stage, self._waited = 0, 0

    @classmethod
    def of(cls, env: Any) -> PickAndPlace:
        """For the goal of the task's file: one thing, in a region of a container."""
        ((_, thing, region),) = env.parsed_problem["goal_state"]
        return cls(env, thing, env.parsed_problem["regions"][region]["target"])

    def action(self) -> np.ndarray:
        """For the state now, float64 `[7]`: towards the goal of the stage."""
        data, robot = self._env.sim.data, self._env.robots[0]
        hand = np.array(data.site_xpos[robot.eef_site_id])
        thing, container = data.xpos[self._thing], data.xpos[self._container]
        top = self._top()
        # where to, with which grip, and whether the fingers need time
        goals = (
            ((*thing[:2], top + ABOVE), OPEN, False),
            ((*thing[:2], max(top - DEPTH, LOWEST)), OPEN, False),
            (hand, CLOSE, True),
            ((*hand[:2], TRAVEL), CLOSE, False),
            ((*container[:2], TRAVEL), CLOSE, False),
            (hand, OPEN, True),
        )
        goal, grip, fingers = goals[min(self._stage, len(goals) - 1)]
        away = np.asarray(goal) - hand
        self._waited += 1
        there = self._waited > FINGERS if fingers else np.linalg.norm(away) < NEAR
        if there or self._waited > PATIENCE:
            self._stage, self._waited = self._stage + 1, 0
        return np.array([*np.clip(away / REACH * 2.5, -1.0, 1.0), 0.0, 0.0, 0.0, grip])

    def _top(self) -> float:
        """Height of the thing's highest point: of the boxes it is made of."""
        model, data = self._env.sim.model._model, self._env.sim.data
        mine = np.flatnonzero(model.body_rootid[model.geom_bodyid] == self._thing)
        upright = np.abs(data.geom_xmat[mine].reshape(-1, 3, 3)[:, 2])  # their axes' heights
        extents = np.minimum(model.geom_rbound[mine], (upright * model.geom_size[mine]).sum(axis=1))
        return float((data.geom_xpos[mine, 2] + extents).max())
