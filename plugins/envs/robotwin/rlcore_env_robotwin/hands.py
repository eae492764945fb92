"""Convert the pose of a hand to components. Imports numpy only."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np


def components(pose: Iterable[float], gripper: float) -> list[float]:
    """Return x, y, z in m, roll, pitch, yaw in rad, and the gripper's opening.

    The rotation is roll about x, then pitch about y, then yaw about z. At a pitch of +-90 degrees
    it determines only yaw -+ roll (gimbal lock), so roll and yaw jump from start to start.

    Args:
        pose: pose of the hand in the world as RoboTwin returns it: x, y, z, and quaternion w, x,
            y, z.
        gripper: opening of the gripper.
    """
    x, y, z, a, b, c, d = (float(number) for number in pose)
    roll = np.arctan2(2 * (a * b + c * d), 1 - 2 * (b * b + c * c))
    pitch = np.arcsin(np.clip(2 * (a * c - b * d), -1, 1))
    yaw = np.arctan2(2 * (a * d + b * c), 1 - 2 * (c * c + d * d))
    return [x, y, z, float(roll), float(pitch), float(yaw), float(gripper)]
