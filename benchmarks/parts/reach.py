"""MetaWorld's reach-v3 from its state as an env of gymnasium, for rlcore and another library alike.

`gymnasium.make("reach:Reach-v0")` makes it where this folder is on the path.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from metaworld.env_dict import ALL_V3_ENVIRONMENTS

LIMIT = 100  # env steps of an episode


class Reach(gymnasium.Env[np.ndarray, np.ndarray]):
    """reach-v3 with its goal in the state, MetaWorld's dense reward, and no end on success."""

    def __init__(self) -> None:
        self._env = ALL_V3_ENVIRONMENTS["reach-v3"]()
        self._env._partially_observable = False
        self._env._freeze_rand_vec = False
        self._env._set_task_called = True
        self._env.seeded_rand_vec = True
        self.action_space = self._env.action_space
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (39,), np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        if seed is not None:
            self._env.seed(seed)
        state, _ = self._env.reset()
        return state.astype(np.float32), {"success": False}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        state, reward, _, _, info = self._env.step(action)
        return state.astype(np.float32), float(reward), False, False, {"success": info["success"]}


gymnasium.register("Reach-v0", Reach, max_episode_steps=LIMIT)
