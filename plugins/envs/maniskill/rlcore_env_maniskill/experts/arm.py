"""Convert motions in metres to actions of ManiSkill's `pd_ee_delta_pose` or `pd_ee_delta_pos`.

In both modes an action sets a target relative to the *measured* pose (earlier targets are
discarded), with translation and rotation along the axes of the robot's base. `pd_ee_delta_pos` has
no rotation and keeps that of the hand. For the panda an entry of 1 is 0.1 m or 0.1 rad in
magnitude. Its drives (stiffness 1000, damping 100) need 0.1 s for 63% of the distance, so a
constant full action moves 0.04 m per step at ManiSkill's usual 20 Hz, and 0.086 m at 5 Hz.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from transforms3d.quaternions import qconjugate, qmult, quat2axangle

from rlcore.contracts.errors import ConfigError

TURNING = "pd_ee_delta_pose"
CONTROL_MODES = (TURNING, "pd_ee_delta_pos")
OPEN = 1.0
CLOSE = -1.0
# A gripper whose opening is below this has begun to close, or holds an object.
CLOSING = 0.9
# Rotation (w, x, y, z) of a hand whose fingers point to the table and close along the y axis of the
# base. ManiSkill's table scenes start with it, plus noise.
DOWN = np.array([0.0, 1.0, 0.0, 0.0])
# Fraction of the remaining distance to cover in one step.
COVERED = 0.6


class Arm:
    """Hand and gripper of the only robot of a ManiSkill env that holds one scene.

    Args:
        env: the unwrapped env.

    Raises:
        ConfigError: the env has another control mode.
    """

    def __init__(self, env: Any) -> None:
        if env.control_mode not in CONTROL_MODES:
            raise ConfigError(
                f"the scripted experts need control_mode {' or '.join(CONTROL_MODES)}, "
                f"got {env.control_mode}",
                hint=f"set the env's control_mode={TURNING}",
            )
        self._agent = env.agent
        controllers = env.agent.controller.controllers
        self._gripper = controllers["gripper"]
        config = controllers["arm"].config
        self._metres = config.pos_upper
        # ManiSkill multiplies rotations by the *lower* bound: +1 turns by -0.1 rad.
        self._radians = config.rot_lower if env.control_mode == TURNING else None
        self._widest = float(self._gripper.config.upper)
        settling = config.damping / config.stiffness  # time constant of the drives, seconds
        reached = 1.0 - float(np.exp(-1.0 / (env.control_freq * settling)))
        self._gain = COVERED / reached

    @property
    def position(self) -> np.ndarray:
        """Point between the fingertips in world coordinates, m, float64 `[3]`."""
        return row(self._agent.tcp.pose.p)

    @property
    def opening(self) -> float:
        """Opening of the gripper: 0 is closed, 1 is fully open."""
        return float(row(self._gripper.qpos).mean()) / self._widest

    def holds(self, actor: Any) -> bool:
        """Return whether both fingers press on the actor.

        False while the gripper is open, because ManiSkill's contact forces survive a reset.
        """
        return self.opening < CLOSING and bool(self._agent.is_grasping(actor)[0])

    def action(self, way: np.ndarray, grip: float, *, speed: float) -> np.ndarray:
        """Return the action that moves along `way` with the fingers pointing down.

        Args:
            way: vector from the hand to its target in world coordinates, m `[3]`.
            grip: `OPEN`, `CLOSE` or a value between.
            speed: fraction of the full motion, in (0, 1].

        Returns:
            float32 `[7]`: translation and rotation, each of norm `speed` at most, and the gripper;
            `[4]` if the control mode has no rotation.
        """
        base = row(self._agent.robot.pose.q)
        move = speed * _within_one(self._gain * _rotate(qconjugate(base), way) / self._metres)
        turn: np.ndarray | list[float] = []
        if self._radians is not None:
            turn = speed * self._turn(base)
        return np.concatenate([move, turn, [grip]]).astype(np.float32)

    def _turn(self, base: np.ndarray) -> np.ndarray:
        """Return the rotation `[3]`, of norm 1 at most, that turns the hand towards `DOWN`."""
        hand = qmult(qconjugate(base), row(self._agent.tcp.pose.q))
        axis, angle = quat2axangle(qmult(DOWN, qconjugate(hand)))
        angle = (angle + np.pi) % (2 * np.pi) - np.pi
        return _within_one(self._gain * angle * axis / self._radians)


def row(values: Any) -> np.ndarray:
    """Return the first row of a batched tensor as a float64 array."""
    return values[0].detach().cpu().numpy().astype(np.float64)


def _within_one(vector: np.ndarray) -> np.ndarray:
    return vector / max(1.0, float(np.linalg.norm(vector)))


def _rotate(quaternion: np.ndarray, vector: np.ndarray) -> np.ndarray:
    pure = np.concatenate([[0.0], vector])
    return qmult(qmult(quaternion, pure), qconjugate(quaternion))[1:]
