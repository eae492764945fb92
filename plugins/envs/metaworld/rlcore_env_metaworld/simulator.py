"""Simulate one MetaWorld task in MuJoCo, with bitwise reproducible starts.

MetaWorld draws the layout of an episode from global random state inside `reset_model`, in some
tasks several times until the layout is valid, and fixes it with `set_task`. This module draws the
layout in the same way, including rejections, from a generator seeded by (task name, trial). Then it
sets the layout with MetaWorld's own `set_task` and `reset`. Before that it restores the model and
the state as compiled, so that a start does not depend on the previous episode. A draw costs a
fraction of a millisecond, while the constructors of MetaWorld's benchmarks reset each task 50
times.
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

# Number of leading entries of MetaWorld's observation about the robot: hand position and gripper
# opening.
STATE_SIZE = 4
# Entries of the action that move the hand; the last entry is the gripper's.
MOTION = slice(0, 3)
NO_MOTION = np.zeros(4, dtype=np.float32)
# MetaWorld raises beyond its own time limit; rlcore applies its limit outside the simulator.
NO_LIMIT = 10**9
# Arrays of a model that MetaWorld changes when it sets up an episode.
CHANGED = ("body_pos", "site_pos")


@lru_cache(maxsize=10)
def _compiled(path: str) -> mujoco.MjModel:
    """Return the compiled model (22 MB) of an XML file, to be copied.

    A copy takes a tenth of the time of compiling.
    """
    return mujoco.MjModel.from_xml_path(path)


class _Copied(SawyerXYZEnv):
    """MetaWorld env that copies a cached model instead of compiling its own.

    Gymnasium's `_initialize_simulation` also sets the size of a framebuffer, which is unused here.
    """

    def _initialize_simulation(self) -> tuple[mujoco.MjModel, mujoco.MjData]:
        model = copy.copy(_compiled(self.fullpath))
        return model, mujoco.MjData(model)

    def _get_curr_obs_combined_no_goal(self) -> np.ndarray:
        """Return the observation without the goal, float64 `[18]`.

        It holds the hand's position, the gripper's opening in [0, 1], and the position and
        quaternion of each object. MetaWorld's own method returns the same bits, but takes a tenth
        of a rollout's time, because it concatenates many small arrays.
        """
        right_finger = self.data.body("rightclaw").xpos
        left_finger = self.data.body("leftclaw").xpos
        observation = np.zeros(4 + self._obs_obj_max_len)
        observation[:3] = self.get_endeff_pos()
        observation[3] = min(max(float(np.linalg.norm(right_finger - left_finger)) / 0.1, 0.0), 1.0)
        positions = self._get_pos_objects()
        quaternions = self._get_quat_objects()
        count = len(positions) // 3
        objects = observation[4 : 4 + 7 * count].reshape(count, 7)
        objects[:, :3] = positions.reshape(-1, 3)
        objects[:, 3:] = quaternions.reshape(-1, 4)
        return observation


class MetaWorldSimulator:
    """Simulator of one task (see :class:`rlcore_simulation.simulator.Simulator`).

    Args:
        config: settings of the env.
        task: MetaWorld's name of the task.
        renderers: renderers of this process.

    Attributes:
        task: MetaWorld's name of the task.
        observation: MetaWorld's last observation, including the goal, float64 `[39]`.
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
        """Reset the task to the start of `episode.trial`.

        The start is bitwise the same, whatever the simulator did before.

        Returns:
            instruction of the task.
        """
        env = self._env
        self._restore()
        self._expert = _new_expert(self.task)
        layout = self._draw_layout(episode.trial)
        # The observation includes the goal, because experts need it. Policies get `states` only.
        data = {"rand_vec": layout, "env_cls": self._class, "partially_observable": False}
        env.set_task(Task(env_name=self.task, data=pickle.dumps(data)))
        # `reset` sets up the scene twice, and the second time discards the hand's first motion.
        _skip_next_hand_motion(env)
        self.observation, _ = env.reset()
        for _ in range(self._config.settle_steps):
            self.step(NO_MOTION)
        return SENTENCES[self.task]

    def step(self, action: np.ndarray) -> Step:
        """Step the simulation by 12.5 ms.

        Args:
            action: float32 `[4]`; the simulator clips it to [-1, 1].
        """
        self.observation, reward, _, _, info = self._env.step(action)
        solved = bool(info["success"])
        dense = self._config.reward == "dense"
        return Step(reward=float(reward if dense else solved), success=solved)

    def draw(self, out: Mapping[str, np.ndarray]) -> None:
        """Render the current state into the array of each camera, uint8 `[H, W, 3]`."""
        renderer = self._renderers.of(self.task, self._env.model)
        renderer.draw(self._env.model, self._env.data, out)

    def expert_action(self, *, speed: float) -> np.ndarray:
        """Return the expert's action, float32 `[4]`, clipped to [-1, 1].

        Its motion is scaled by `speed`; the gripper's entry is not.
        """
        with warnings.catch_warnings():  # experts exceed the range and warn; clipped here
            warnings.simplefilter("ignore")
            action = np.clip(self._expert.get_action(self.observation), -1.0, 1.0)
        action[MOTION] *= speed
        return action.astype(np.float32)

    def close(self) -> None:
        """Leave the scene's renderer. The simulator can't be used afterwards."""
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
        """Restore the model and the state as they were compiled."""
        env = self._env
        self._built.put(env.model)
        mujoco.mj_resetData(env.model, env.data)
        mujoco.mj_forward(env.model, env.data)


def _move_cameras(model: mujoco.MjModel, cameras: Iterable[str]) -> None:
    """Move cameras to their positions in :data:`CAMERAS`.

    The positions take effect in the next forward pass.
    """
    for mount in (CAMERAS[name] for name in cameras):
        if mount.position is not None:
            model.cam_pos[model.camera(mount.name).id] = mount.position


def _new_expert(task: str) -> Policy:
    return ENV_POLICY_MAP[task]()  # type: ignore[abstract]  # the map holds concrete classes


def _skip_next_hand_motion(env: SawyerXYZEnv) -> None:
    """Skip the next motion of the hand to its start, 50 steps on which no layout depends."""

    def stay(steps: int = 50) -> None:
        env.init_tcp = env.tcp_center
        del env._reset_hand

    env._reset_hand = stay  # type: ignore[method-assign]  # hides the method until it is called
