"""One robot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
import gymnasium_robotics  # type: ignore[import-not-found, import-untyped, unused-ignore]
import mujoco
import numpy as np
from rlcore_simulation.cache import SimulatorCache
from rlcore_simulation.simulator import Step

from fetch_for_rlcore.settings import TASKS, FetchConfig
from rlcore.contracts.specs import Episode

gymnasium.register_envs(gymnasium_robotics)
WHOLE = mujoco.mjtState.mjSTATE_INTEGRATION


def make_pool(config: FetchConfig) -> SimulatorCache[Fetch]:
    """One robot a task; a switch of tasks builds another scene."""
    return SimulatorCache(
        lambda task: Fetch(config, [*TASKS.values()][task]), keep=len(TASKS), drop=Fetch.close
    )


class Fetch:
    def __init__(self, config: FetchConfig, task: tuple[str, str]) -> None:
        name, self._told = task
        size = {"width": config.image_size, "height": config.image_size}
        self._env = gymnasium.make(
            name, render_mode="rgb_array", max_episode_steps=-1, disable_env_checker=True, **size
        )
        self._seen: dict[str, Any] = {}
        self._env.reset(seed=0)
        self._inner: Any = self._env.unwrapped
        self._fresh = self._state()

    def start(self, episode: Episode) -> str:
        # the seed alone fixes the start; but reset leaves what moves the hand where the episode
        # before had it, so that the same actions would lead elsewhere
        mujoco.mj_setState(self._inner.model, self._inner.data, self._fresh, WHOLE)
        self._seen, _ = self._env.reset(seed=int(episode.trial))
        return self._told

    @property
    def states(self) -> np.ndarray:
        robot, goal = self._seen["observation"], self._seen["desired_goal"]
        opening = self._opening(robot)
        cube = robot[3:6] if len(robot) > 10 else np.zeros(3)
        return np.concatenate([robot[:3], [opening], cube, goal]).astype(np.float32)

    def step(self, action: np.ndarray) -> Step:
        taken = np.clip(action, -1, 1).astype(np.float32)
        self._seen, _, _, _, info = self._env.step(taken)
        # the next action begins where the hand is, of which a frame would make sure otherwise
        mujoco.mj_forward(self._inner.model, self._inner.data)
        success = bool(info["is_success"])
        away = self._seen["desired_goal"] - self._seen["achieved_goal"]
        return Step(float(success), success, {"distance": float(np.linalg.norm(away))})

    def draw(self, out: Mapping[str, np.ndarray]) -> None:
        viewer = self._inner.mujoco_renderer.viewer
        if viewer is not None:  # its first frame makes it; a scene built or closed since is current
            viewer.make_context_current()
        before = self._state()  # a frame runs the solver, so that what follows would differ
        out["front"][:] = self._env.render()
        mujoco.mj_setState(self._inner.model, self._inner.data, before, WHOLE)

    def expert_action(self, *, speed: float) -> np.ndarray:
        """To the goal; where there is a cube, above it, down to it, and with it to the goal."""
        robot, goal = self._seen["observation"], self._seen["desired_goal"]
        hand, target, grip = robot[:3], goal, 0.0
        if len(robot) > 10:
            cube = robot[3:6]
            held = np.linalg.norm(cube - hand) < 0.02
            closed = self._opening(robot) < 0.055
            over = np.linalg.norm(cube[:2] - hand[:2]) < 0.01
            grip = -1.0 if held else 1.0
            above = cube + np.array([0, 0, 0.06])
            target = (goal if closed else hand) if held else (cube if over else above)
        moved = np.clip(8 * (target - hand), -1, 1) * speed
        return np.append(moved, grip).astype(np.float32)

    def close(self) -> None:
        self._env.close()

    def _state(self) -> np.ndarray:
        held = np.empty(mujoco.mj_stateSize(self._inner.model, WHOLE))
        mujoco.mj_getState(self._inner.model, self._inner.data, held, WHOLE)
        return held

    @staticmethod
    def _opening(robot: np.ndarray) -> float:
        """Both fingers' positions, which are the last but four without a cube."""
        return float(robot[9:11].sum() if len(robot) > 10 else robot[3:5].sum())
