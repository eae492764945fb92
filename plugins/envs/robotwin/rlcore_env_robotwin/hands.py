"""Where a hand is, by components. numpy only."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np


def components(pose: Iterable[float], gripper: float) -> list[float]:
    """x, y, z in m, roll, pitch, yaw in rad, and the gripper's opening.

    Args:
        pose: of the hand in the world, as RoboTwin has it: x, y, z and a quaternion w, x, y, z.

    The rotation is yaw about z after pitch about y after roll about x. With the hand straight up or
    down only yaw -+ roll is told by it; then roll and yaw jump from start to start.
    """
    x, y, z, a, b, c, d = (float(number) for number in pose)
    roll = np.arctan2(2 * (a * b + c * d), 1 - 2 * (b * b + c * c))
    pitch = np.arcsin(np.clip(2 * (a * c - b * d), -1, 1))
    yaw = np.arctan2(2 * (a * d + b * c), 1 - 2 * (c * c + d * d))
    return [x, y, z, float(roll), float(pitch), float(yaw), float(gripper)]
