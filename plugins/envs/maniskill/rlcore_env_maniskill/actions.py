"""Convert actions between the units of the env's spec and those of ManiSkill's controllers."""

from __future__ import annotations

import numpy as np

from rlcore_env_maniskill.robots import ROBOTS, motion_units
from rlcore_env_maniskill.settings import ManiSkillConfig
from rlcore_env_maniskill.spec import control_of, robot_name


class ActionScale:
    """Converts actions `[..., A]`; the last entry is the gripper's if the action has one.

    Args:
        config: settings.
        task: ManiSkill's id.
    """

    def __init__(self, config: ManiSkillConfig, task: str) -> None:
        robot = ROBOTS[robot_name(config, task)]
        units = motion_units(robot, control_of(config, task))
        self._units = np.array(units, np.float32) if config.action_units == "metric" else None
        self._arm = len(units)
        self._binary = config.gripper == "binary" and robot.gripper is not None
        self._open = -1.0 if robot.gripper == "closes" else 1.0

    def to_robot(self, actions: np.ndarray) -> np.ndarray:
        """Return the controller's action, float32 `[..., A]` in [-1, 1], for an action of the env.

        Each entry is clipped here. ManiSkill would clip the length of the rotation vector instead,
        and a rotation beyond the range would turn about another axis.
        """
        scaled = np.array(actions, dtype=np.float32)
        if self._units is not None:
            scaled[..., : self._arm] /= self._units
        if self._binary:
            scaled[..., -1] = np.where(scaled[..., -1] > 0.5, self._open, -self._open)
        return np.clip(scaled, -1.0, 1.0)

    def from_robot(self, actions: np.ndarray) -> np.ndarray:
        """Return the env's action, float32 `[..., A]`, for an action of the controller."""
        scaled = np.array(actions, dtype=np.float32)
        if self._units is not None:
            scaled[..., : self._arm] *= self._units
        if self._binary:
            scaled[..., -1] = scaled[..., -1] * self._open > 0.0
        return scaled
