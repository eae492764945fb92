"""One LIBERO episode in its task's scene, with exact starts.

As LIBERO's evaluation does, a start resets the scene, restores one of the task's init states, and
then lets things settle. See :mod:`.scene` for what that costs.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from rlcore_mujoco.render import Renderers
from rlcore_simulation.simulator import Step

from rlcore.contracts.specs import Episode
from rlcore_env_libero.expert import PickAndPlace
from rlcore_env_libero.scene import RowState, Scene
from rlcore_env_libero.settings import LiberoConfig
from rlcore_env_libero.suites import sentence

# Waits, with the gripper opening or as it is.
OPENING = np.array([0, 0, 0, 0, 0, 0, -1], dtype=np.float32)
STILL = np.zeros(7, dtype=np.float32)


class LiberoSimulator:
    """A row (see :class:`rlcore_simulation.simulator.Simulator`).

    Args:
        config: settings.
        task: LIBERO's name of the task.
        scene: of that task; shared with other rows.
        init_states: float64 `[50, S]`, by trial.
        renderers: of this process.
    """

    def __init__(
        self,
        config: LiberoConfig,
        task: str,
        scene: Scene,
        init_states: np.ndarray,
        renderers: Renderers,
    ) -> None:
        self.task = task
        self.scene = scene
        self._row = RowState(scene)
        self._init_states = init_states
        self._renderers = renderers
        self._settle_steps = config.settle_steps
        self._binary = config.gripper == "binary"
        self._expert: PickAndPlace | None = None
        self._wait = OPENING if config.reset_gripper_open else STILL

    @property
    def states(self) -> np.ndarray:
        """Hand position in metres, its rotation as axis times angle in radians, and both finger
        positions in metres, float32 `[8]`: what openpi and OpenVLA-OFT read."""
        robot, seen = self.scene.robot, self._row.seen
        position = seen["site_xpos"][robot.eef_site_id]
        turn = seen["xquat"][self.scene.model.body(robot.robot_model.eef_name).id]
        fingers = seen["qpos"][robot._ref_gripper_joint_pos_indexes]
        return np.concatenate([position, axis_angle(turn), fingers]).astype(np.float32)

    def start(self, episode: Episode) -> str:
        """Reset the task to the start of `episode.trial`, the same to the bit whatever happened
        before. Returns the sentence."""
        self._expert = None
        self.scene.load(self._row)
        self.scene.reset((self.task, episode.trial))
        self.scene.restore(self._init_states[episode.trial])
        for _ in range(self._settle_steps):
            self.scene.step(self._wait)
        return sentence(self.task)

    def step(self, action: np.ndarray) -> Step:
        """One step of 50 ms: action float32 `[7]`, clipped to [-1, 1] by the controller; of the
        gripper's entry only the side counts on which it is."""
        self.scene.load(self._row)
        if self._binary:
            action = np.append(action[:-1], -1.0 if action[-1] > 0.5 else 1.0)
        solved = self.scene.step(action)
        return Step(reward=float(solved), success=solved)

    def draw(self, out: Mapping[str, np.ndarray]) -> None:
        """Write frames of what was last observed into the cameras' arrays, uint8 `[H, W, 3]`."""
        renderer = self._renderers.of(self.task, self.scene.model)
        with self.scene.shown(self._row) as data:
            renderer.draw(self.scene.model, data, out, self._row)

    def expert_action(self, *, speed: float) -> np.ndarray:
        """The action of :class:`rlcore_env_libero.expert.PickAndPlace`, float32 `[7]`, its motion
        scaled by `speed`."""
        self.scene.load(self._row)
        if self._expert is None:
            self._expert = PickAndPlace(self.scene.env)
        action = self._expert.action()
        action[:6] *= speed
        if self._binary:
            action[-1] = action[-1] < 0.0
        return action.astype(np.float32)


def axis_angle(quaternion: np.ndarray) -> np.ndarray:
    """The rotation vector `[3]` of a quaternion `[4]`, real part first: angle in [0, 2 pi) times
    unit axis; zero where the angle is."""
    real, imaginary = np.clip(quaternion[0], -1.0, 1.0), quaternion[1:]
    sine = np.sqrt(1.0 - real * real)
    if np.isclose(sine, 0.0):
        return np.zeros(3)
    return imaginary * 2.0 * np.arccos(real) / sine
