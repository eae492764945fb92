"""One MetaWorld task in MuJoCo, started exactly and stepped. Knows no reward rule or time limit.

Exact starts. MetaWorld draws the layout of an episode from global random state inside
`reset_model`, in some tasks several times until the draw is admissible, and fixes it with
`set_task`. Here the layout is drawn the same way, rejections included, from a generator keyed by
(task name, trial), and then set with MetaWorld's own `set_task` and `reset`. Before that, model
and state are put back as they were built, so that nothing of the last episode is left. A draw
costs a fraction of a millisecond; the benchmarks' constructors reset every task 50 times.
"""

from __future__ import annotations

import pickle

import mujoco
import numpy as np
from metaworld.env_dict import ALL_V3_ENVIRONMENTS
from metaworld.sawyer_xyz_env import SawyerXYZEnv
from metaworld.types import Task

from rlcore.rollout.rng import generator
from rlcore_env_metaworld.block import STATE_SIZE
from rlcore_env_metaworld.render import Renderer, View, prepare_model

NO_MOTION = np.zeros(4, dtype=np.float32)
# MetaWorld refuses to step further than its own limit; ours is kept outside.
NO_LIMIT = 10**9


class Simulator:
    """One task in one MuJoCo model.

    Args:
        task: MetaWorld's name of the task.
        view: how it is drawn.
        settle_steps: steps without motion after each start.
    """

    def __init__(self, task: str, view: View, settle_steps: int) -> None:
        self.task = task
        self._settle_steps = settle_steps
        self._class = ALL_V3_ENVIRONMENTS[task]
        self._env: SawyerXYZEnv = self._class()
        self._env.max_path_length = NO_LIMIT
        self._env._set_task_called = True
        prepare_model(self._env.model, view)
        self._body_positions = self._env.model.body_pos.copy()
        self._site_positions = self._env.model.site_pos.copy()
        self.observation = np.zeros(39)

    @property
    def model(self) -> mujoco.MjModel:
        return self._env.model

    @property
    def states(self) -> np.ndarray:
        """Hand position in metres and opening of the gripper in [0, 1], float32 `[4]`."""
        return self.observation[:STATE_SIZE].astype(np.float32)

    def start(self, trial: int) -> None:
        """Put the task into the start of `trial`: bitwise the same whatever happened before."""
        env = self._env
        self._restore()
        layout = self._draw_layout(trial)
        # With the goal in the observation: experts need it, and policies never see that part.
        data = {"rand_vec": layout, "env_cls": self._class, "partially_observable": False}
        env.set_task(Task(env_name=self.task, data=pickle.dumps(data)))
        # `reset` places the scene twice and keeps nothing of the hand's first way.
        _skip_next_hand_motion(env)
        self.observation, _ = env.reset()
        for _ in range(self._settle_steps):
            self.step(NO_MOTION)

    def step(self, action: np.ndarray) -> tuple[float, bool]:
        """One step of 12.5 ms: action float32 `[4]`, clipped to [-1, 1] by the simulator.

        Returns:
            MetaWorld's dense reward and whether the task is solved in this step.
        """
        self.observation, reward, _, _, info = self._env.step(action)
        return float(reward), bool(info["success"])

    def draw(self, renderer: Renderer, out: np.ndarray) -> None:
        """Write a frame of the current state into `out`, uint8 `[H, W, 3]`."""
        renderer.draw(self._env.model, self._env.data, out)

    def _draw_layout(self, trial: int) -> np.ndarray:
        env = self._env
        env._freeze_rand_vec = False
        env.seeded_rand_vec = True
        env.np_random = generator("metaworld start", self.task, trial)
        _skip_next_hand_motion(env)
        env.reset_model()
        assert env._last_rand_vec is not None
        return env._last_rand_vec.copy()

    def _restore(self) -> None:
        """Model and state as they were built."""
        env = self._env
        env.model.body_pos[:] = self._body_positions
        env.model.site_pos[:] = self._site_positions
        mujoco.mj_resetData(env.model, env.data)
        mujoco.mj_forward(env.model, env.data)


def _skip_next_hand_motion(env: SawyerXYZEnv) -> None:
    """Leave out the 50 steps that move the hand to its start, once: no layout depends on them."""

    def stay(steps: int = 50) -> None:
        env.init_tcp = env.tcp_center
        del env._reset_hand

    env._reset_hand = stay  # type: ignore[method-assign]
