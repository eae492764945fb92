"""One MetaWorld task in MuJoCo, with exact starts.

MetaWorld draws the layout of an episode from global random state inside `reset_model`, in some
tasks several times until the layout is valid, and fixes it with `set_task`. Here we draw the layout
in the same way, rejections included, from a generator keyed by (task name, trial), and set it with
MetaWorld's own `set_task` and `reset`. Before that we restore model and state as they were built,
so nothing of the last episode is left. A draw costs a fraction of a millisecond, while the
benchmarks' constructors reset every task 50 times.
"""

from __future__ import annotations

import copy
import pickle
import warnings
from collections.abc import Iterable, Mapping
from functools import lru_cache

import mujoco
import numpy as np
from metaworld.env_dict import ALL_V3_ENVIRONMENTS
from metaworld.policies import ENV_POLICY_MAP
from metaworld.policies.policy import Policy
from metaworld.sawyer_xyz_env import SawyerXYZEnv
from metaworld.types import Task
from rlcore_mujoco.model import Kept
from rlcore_mujoco.render import Renderers, prepare_model
from rlcore_simulation.simulator import Step

from rlcore.contracts.rng import generator
from rlcore.contracts.specs import Episode
from rlcore_env_metaworld.cameras import CAMERAS
from rlcore_env_metaworld.settings import MetaWorldConfig
from rlcore_env_metaworld.tasks import SENTENCES

# Entries of MetaWorld's observation about the robot itself: hand position, gripper opening.
STATE_SIZE = 4
# Entries of the action that move the hand; the last one works the gripper.
MOTION = slice(0, 3)
NO_MOTION = np.zeros(4, dtype=np.float32)
# MetaWorld refuses to step beyond its own limit; ours is applied outside.
NO_LIMIT = 10**9
# What MetaWorld changes in a model when it sets up an episode.
CHANGED = ("body_pos", "site_pos")


@lru_cache(maxsize=10)
def _compiled(path: str) -> mujoco.MjModel:
    """A task as it is built, 22 MB, to be copied: that takes a tenth of the time."""
    return mujoco.MjModel.from_xml_path(path)


class _Copied(SawyerXYZEnv):
    """Has a copy of its task's model. Gymnasium's own sizes a framebuffer, which we don't use."""

    def _initialize_simulation(self) -> tuple[mujoco.MjModel, mujoco.MjData]:
        model = copy.copy(_compiled(self.fullpath))
        return model, mujoco.MjData(model)

    def _get_curr_obs_combined_no_goal(self) -> np.ndarray:
        """Hand, opening of the gripper in [0, 1], position and quaternion of each object, float64
        `[18]`. MetaWorld's own returns the same bits and takes a tenth of a rollout, for the
        arrays that it joins."""
        right, left = self.data.body("rightclaw").xpos, self.data.body("leftclaw").xpos
        observation = np.zeros(4 + self._obs_obj_max_len)
        observation[:3] = self.get_endeff_pos()
        observation[3] = min(max(float(np.linalg.norm(right - left)) / 0.1, 0.0), 1.0)
        positions, quaternions = self._get_pos_objects(), self._get_quat_objects()
        count = len(positions) // 3
        objects = observation[4 : 4 + 7 * count].reshape(count, 7)
        objects[:, :3], objects[:, 3:] = positions.reshape(-1, 3), quaternions.reshape(-1, 4)
        return observation


class MetaWorldSimulator:
    """One task in one MuJoCo model (see :class:`rlcore_simulation.simulator.Simulator`).

    Args:
        config: settings.
        task: MetaWorld's name of the task.
        renderers: of this process.
    """

    def __init__(self, config: MetaWorldConfig, task: str, renderers: Renderers) -> None:
        self.task = task
        self._config = config
        self._renderers = renderers
        self._expert = _new_expert(task)
        self._class = ALL_V3_ENVIRONMENTS[task]
        self._env: SawyerXYZEnv = type(task, (_Copied, self._class), {})()
        self._env.max_path_length = NO_LIMIT
        self._env._set_task_called = True
        _move_cameras(self._env.model, renderers.view.cameras)
        prepare_model(self._env.model, renderers.view)
        renderers.join(task)
        self._built = Kept(self._env.model, CHANGED)
        self.observation = np.zeros(39)

    @property
    def states(self) -> np.ndarray:
        """Hand position in metres and opening of the gripper in [0, 1], float32 `[4]`."""
        return self.observation[:STATE_SIZE].astype(np.float32)

    def start(self, episode: Episode) -> str:
        """Reset the task to the start of `episode.trial`, the same to the bit whatever happened
        before. Returns the sentence."""
        env = self._env
        self._restore()
        self._expert = _new_expert(self.task)
        layout = self._draw_layout(episode.trial)
        # The observation includes the goal: experts need it, and policies never see that part.
        data = {"rand_vec": layout, "env_cls": self._class, "partially_observable": False}
        env.set_task(Task(env_name=self.task, data=pickle.dumps(data)))
        # `reset` sets up the scene twice, so the hand's first motion has no effect.
        _skip_next_hand_motion(env)
        self.observation, _ = env.reset()
        for _ in range(self._config.settle_steps):
            self.step(NO_MOTION)
        return SENTENCES[self.task]

    def step(self, action: np.ndarray) -> Step:
        """One step of 12.5 ms: action float32 `[4]`, clipped to [-1, 1] by the simulator."""
        self.observation, reward, _, _, info = self._env.step(action)
        solved = bool(info["success"])
        dense = self._config.reward == "dense"
        return Step(reward=float(reward if dense else solved), success=solved)

    def draw(self, out: Mapping[str, np.ndarray]) -> None:
        """Write a frame of the current state into the one camera's array, uint8 `[H, W, 3]`."""
        renderer = self._renderers.of(self.task, self._env.model)
        renderer.draw(self._env.model, self._env.data, out)

    def expert_action(self, *, speed: float) -> np.ndarray:
        """The action of MetaWorld's expert, clipped to [-1, 1], its motion scaled by `speed`."""
        with warnings.catch_warnings():  # experts exceed the range and warn; we clip
            warnings.simplefilter("ignore")
            action = np.clip(self._expert.get_action(self.observation), -1.0, 1.0)
        action[MOTION] *= speed
        return action.astype(np.float32)

    def close(self) -> None:
        """Release the renderer; the simulator can't be used afterwards."""
        self._renderers.leave(self.task)

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
        """Restore model and state as they were built."""
        env = self._env
        self._built.put(env.model)
        mujoco.mj_resetData(env.model, env.data)
        mujoco.mj_forward(env.model, env.data)


def _move_cameras(model: mujoco.MjModel, cameras: Iterable[str]) -> None:
    """Put cameras where :data:`CAMERAS` wants them; shows after the next forward pass."""
    for mount in (CAMERAS[name] for name in cameras):
        if mount.position is not None:
            model.cam_pos[model.camera(mount.name).id] = mount.position


def _new_expert(task: str) -> Policy:
    return ENV_POLICY_MAP[task]()  # type: ignore[abstract]  # the map holds concrete classes


def _skip_next_hand_motion(env: SawyerXYZEnv) -> None:
    """Skip, once, the 50 steps that move the hand to its start: no layout depends on them."""

    def stay(steps: int = 50) -> None:
        env.init_tcp = env.tcp_center
        del env._reset_hand

    env._reset_hand = stay  # type: ignore[method-assign]  # hides the method until it is called
