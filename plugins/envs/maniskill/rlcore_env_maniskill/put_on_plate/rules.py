"""Success and reward of put-on-plate, as functions of plain tensors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from mani_skill.utils.geometry.rotation_conversions import quaternion_to_matrix

HELD_STEPS = 5
GRASP_REWARD = 0.1
HELD_REWARD = 0.1
SUCCESS_REWARD = 1.0


@dataclass(frozen=True)
class SuccessRule:
    """When an object lies on a plate.

    Args:
        reach: limit of the horizontal distance: the plate's "longest" half extent, or half of its
            horizontal "diagonal".
        margin: added to that limit, m.
        height_margin: how far the object's centre may be above where it touches the plate, m.
        force: the contact force between both must be larger, N.
    """

    reach: Literal["longest", "diagonal"] = "longest"
    margin: float = 0.01
    height_margin: float = 0.05
    force: float = 0.03

    def on_plate(
        self,
        offset: torch.Tensor,
        object_half: torch.Tensor,
        plate_half: torch.Tensor,
        force: torch.Tensor,
    ) -> torch.Tensor:
        """Bool `[B]`.

        Args:
            offset: from the plate's origin to the object's, m `[B, 3]`.
            object_half: half extents of the object's box in world axes at the start `[B, 3]`.
            plate_half: the plate's `[B, 3]`.
            force: contact force between the two, N `[B]`.
        """
        if self.reach == "longest":
            reach = plate_half.max(dim=1).values
        else:
            reach = torch.linalg.norm(plate_half[:, :2], dim=1)
        near = torch.linalg.norm(offset[:, :2], dim=1) <= reach + self.margin
        height = offset[:, 2]
        low = height - plate_half[:, 2] - object_half[:, 2] <= self.height_margin
        return near & (height > 0) & low & (force > self.force)


def world_half_extents(size: torch.Tensor, quaternion: torch.Tensor) -> torch.Tensor:
    """Half extents in world axes `[B, 3]` of boxes of `size` `[B, 3]` rotated by (w, x, y, z)."""
    return (quaternion_to_matrix(quaternion).abs() @ (size / 2)[..., None])[..., 0]


def grasp_potential(
    grasped: torch.Tensor, held: torch.Tensor, success: torch.Tensor
) -> torch.Tensor:
    """0.1 once grasped, 0.1 once held for five steps, 1.0 while on the plate after a grasp.

    A step's reward is the increase of this; an episode sums to at most 1.2.
    All bool `[B]`; returns float32 `[B]`.
    """
    return (
        GRASP_REWARD * grasped.float()
        + HELD_REWARD * held.float()
        + SUCCESS_REWARD * (success & grasped).float()
    )
