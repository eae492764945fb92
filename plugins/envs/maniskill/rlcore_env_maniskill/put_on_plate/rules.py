"""Success and reward of put-on-plate, as functions of tensors."""

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
    """Criterion for an object being on a plate.

    Args:
        reach: limit of the horizontal distance: the plate's "longest" half extent, or half of its
            horizontal "diagonal".
        margin: distance that is added to this limit, m.
        height_margin: how far the object may be above the height at which it touches the plate, m.
        force: threshold that the contact force between object and plate must exceed, N.
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
        """Return which objects are on their plates, bool `[B]`.

        Args:
            offset: vector from the plate's origin to the object's, m `[B, 3]`.
            object_half: half extents of the object's bounding box in world axes at the start, m
                `[B, 3]`.
            plate_half: half extents of the plate's bounding box, likewise, m `[B, 3]`.
            force: contact force between object and plate, N `[B]`.
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
    """Return half extents in world axes `[B, 3]` of rotated boxes.

    Args:
        size: edge lengths of the boxes in their own axes `[B, 3]`.
        quaternion: rotations (w, x, y, z) `[B, 4]`.
    """
    return (quaternion_to_matrix(quaternion).abs() @ (size / 2)[..., None])[..., 0]


def grasp_potential(
    grasped: torch.Tensor, held: torch.Tensor, success: torch.Tensor
) -> torch.Tensor:
    """Return the potential of the `grasp` reward, float32 `[B]`.

    It is the sum of 0.1 once the object was grasped, 0.1 once it was held for five consecutive
    steps, and 1.0 while it is on the plate after a grasp. A step's reward is the increase of this
    potential, so the rewards of an episode sum to at most 1.2.

    Args:
        grasped: whether the object was grasped in this episode, bool `[B]`.
        held: whether it was held for five consecutive steps, bool `[B]`.
        success: whether it is on the plate now, bool `[B]`.
    """
    return (
        GRASP_REWARD * grasped.float()
        + HELD_REWARD * held.float()
        + SUCCESS_REWARD * (success & grasped).float()
    )
