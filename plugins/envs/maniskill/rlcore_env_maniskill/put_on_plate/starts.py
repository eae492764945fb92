"""Start poses of objects and plates, and start positions of the arm's joints, on the env's device.

`chosen` is the result of :meth:`Episodes.choices`: values `[b]` by factor.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from rlcore_env_maniskill.put_on_plate.assets import Robot
from rlcore_env_maniskill.put_on_plate.layouts import arm_offsets
from rlcore_env_maniskill.put_on_plate.variants import Variant

Chosen = Mapping[str, torch.Tensor]


class Starts:
    """All starts of a variant.

    Args:
        variant: provides places and yaws.
        robot: provides joint positions.
        device: device of the simulation.

    Attributes:
        layouts: start points by value of factor `place`, m `[N, slots, 2]`.
        yaws: yaws of objects by value of factor `yaw`, rad `[Y]`.
        arm_offsets: offsets of the six arm joints by value of factor `arm`, rad `[A, 6]`.
        qpos: joint positions without an offset `[J]`.
    """

    def __init__(self, variant: Variant, robot: Robot, device: torch.device) -> None:
        def to_device(array: Any) -> torch.Tensor:
            return torch.as_tensor(np.asarray(array), dtype=torch.float32, device=device)

        self.layouts = to_device(variant.places())
        self.yaws = to_device(variant.yaws())
        self.arm_offsets = to_device(arm_offsets())
        self.qpos = to_device(robot.qpos)
        self._arm = list(robot.arm_joints)

    def places(self, chosen: Chosen) -> torch.Tensor:
        """Return the start points of all slots, m `[b, slots, 2]`."""
        return self.layouts[chosen["place"]]

    def turned(self, chosen: Chosen) -> torch.Tensor:
        """Return quaternions (w, x, y, z) `[b, 4]` of the chosen yaws."""
        return _about_vertical(self.yaws[chosen["yaw"]])

    def straight(self, chosen: Chosen) -> torch.Tensor:
        """Return identity quaternions (w, x, y, z) `[b, 4]`."""
        return _about_vertical(self.yaws.new_zeros(len(chosen["place"])))

    def joints(self, chosen: Chosen) -> torch.Tensor:
        """Return joint positions at the start, with the chosen offsets if any, `[b, J]`."""
        qpos = self.qpos.repeat(len(chosen["place"]), 1)
        if "arm" in chosen:
            qpos[:, self._arm] += self.arm_offsets[chosen["arm"]]
        return qpos


def _about_vertical(angles: torch.Tensor) -> torch.Tensor:
    """Return quaternions (w, x, y, z) `[b, 4]` of rotations about z by `angles` `[b]`, rad."""
    half = angles / 2
    zero = torch.zeros_like(half)
    return torch.stack([half.cos(), zero, zero, half.sin()], dim=1)
