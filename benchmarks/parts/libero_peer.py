"""LIBERO's `OffScreenRenderEnv` as a gymnasium env, driven as published evaluations drive it.

A reset compiles the model anew, restores an init state and waits ten steps; every step draws both
cameras. No shadow or reflection is left out. Its processes import no part of rlcore's env but the
folder of LIBERO, its init states and the switch that keeps LIBERO from asking and downloading.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from rlcore_env_libero.init_states import read_init_states
from rlcore_env_libero.installed import libero_folder
from rlcore_env_libero.problem import init_file, task_file
from rlcore_env_libero.quiet import assets_from, load_libero

WAIT_STEPS = 10
WAIT = np.array([0, 0, 0, 0, 0, 0, -1], dtype=np.float32)
CAMERAS = ("agentview_image", "robot0_eye_in_hand_image")
STATE = ("robot0_eef_pos", "robot0_eef_quat", "robot0_gripper_qpos")


class PeerEnv(gym.Env[dict[str, np.ndarray], np.ndarray]):
    """One task; its episodes go through the init states from `first_trial` on, and `info["trial"]`
    of a reset is the number of the episode's own."""

    def __init__(self, task: str, size: int, assets: Path, *, first_trial: int) -> None:
        # robosuite takes every text for numbers of GPUs, an empty one too
        if not os.environ.get("CUDA_VISIBLE_DEVICES", "0"):
            del os.environ["CUDA_VISIBLE_DEVICES"]
        libero = libero_folder()
        self._assets = assets
        self._trial = first_trial
        self._size = size
        self._states = read_init_states(init_file(libero, task))
        load_libero(libero)
        from libero.libero.envs.env_wrapper import OffScreenRenderEnv

        with assets_from(assets):
            self._env = OffScreenRenderEnv(
                bddl_file_name=str(task_file(libero, task)), camera_heights=size, camera_widths=size
            )
        frame = gym.spaces.Box(0, 255, (size, size, 3), np.uint8)
        state = gym.spaces.Box(-np.inf, np.inf, (9,), np.float32)
        self.observation_space = gym.spaces.Dict({**dict.fromkeys(CAMERAS, frame), "state": state})
        self.action_space = gym.spaces.Box(-1, 1, (7,), np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        super().reset(seed=seed)
        with assets_from(self._assets):
            self._env.reset()
        observation = self._env.set_init_state(self._states[self._trial % len(self._states)])
        trial = self._trial
        self._trial += 1
        for _ in range(WAIT_STEPS):
            observation, *_ = self._env.step(WAIT)
        return _read(observation), {"trial": trial}

    def step(
        self, action: np.ndarray
    ) -> tuple[dict[str, np.ndarray], float, bool, bool, dict[str, Any]]:
        observation, reward, solved, _ = self._env.step(action)
        return _read(observation), float(reward), bool(solved), False, {}

    def draw(self, cameras: Sequence[str]) -> None:
        """Draw cameras, and nothing else."""
        for camera in cameras:
            self._env.sim.render(camera_name=camera, width=self._size, height=self._size)

    def close(self) -> None:
        self._env.close()


def _read(observation: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Frames turned as policies expect them, and the state."""
    frames = {name: observation[name][::-1, ::-1] for name in CAMERAS}
    state = np.concatenate([observation[name] for name in STATE]).astype(np.float32)
    return {**frames, "state": state}
