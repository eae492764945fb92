"""The policy's camera, and how its image is composed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import sapien
import torch
from mani_skill.sensors.camera import CameraConfig

from rlcore_env_maniskill.put_on_plate import overlay
from rlcore_env_maniskill.put_on_plate.assets import Assets
from rlcore_env_maniskill.put_on_plate.variants import Variant

CAMERA = "3rd_view_camera"
# of the camera of the BridgeData V2 recordings, in the frame of their robot's base
POSE = sapien.Pose([0.147, 0.028, 0.870], [0, 0, 0, 1]) * sapien.Pose(
    [0.0, -0.16, 0.36], [0.8992917, -0.09263245, 0.35892478, 0.23209205]
)
HEIGHT, WIDTH = 480, 640
INTRINSIC = np.array([[623.588, 0, 319.501], [0, 623.588, 239.545], [0, 0, 1]])


def camera_config(asked: Mapping[str, Any]) -> CameraConfig:
    """The camera in the size given by ManiSkill's `sensor_configs`, by default 640 x 480.

    A smaller image shows the same view squeezed, as the resizing of policies does it.
    """
    asked = {**asked, **asked.get(CAMERA, {})}
    height, width = asked.get("height", HEIGHT), asked.get("width", WIDTH)
    squeeze = np.diag([width / WIDTH, height / HEIGHT, 1.0])
    return CameraConfig(
        uid=CAMERA, pose=POSE, width=width, height=height, intrinsic=squeeze @ INTRINSIC
    )


class Composer:
    """Puts the rendered things in front of a table's picture, with the variant's texture.

    Args:
        assets: where pictures and textures come from.
        variant: how a texture is applied.
        drawn_ids: segmentation ids of the rendered things that are kept: robot, objects, plates.
    """

    def __init__(self, assets: Assets, variant: Variant, drawn_ids: torch.Tensor) -> None:
        self.drawn_ids = drawn_ids
        self._tables = assets.tables
        self._variant = variant
        self._ready: dict[tuple[int, bool, int, int], torch.Tensor] = {}

    def drawn(self, segmentation: torch.Tensor) -> torch.Tensor:
        """Bool `[B, H, W]`: which pixels of a segmentation `[B, H, W, 1]` are kept."""
        return torch.isin(segmentation[..., 0], self.drawn_ids.to(segmentation.device))

    def compose(
        self, rgb: torch.Tensor, segmentation: torch.Tensor, choices: Mapping[str, torch.Tensor]
    ) -> torch.Tensor:
        """The composed images uint8 `[B, H, W, 3]`, each with its row's table."""
        change = {"drawn": overlay.texture_on_drawn, "all": overlay.texture_on_all}
        images = []
        for row, drawn in enumerate(self.drawn(segmentation)):
            picture = self._pixels(int(choices["table"][row]), rgb, texture=False)
            image = overlay.behind(rgb[row].float(), drawn, picture)
            if self._variant.change is not None:
                number = int(choices["texture"][row])
                texture = self._pixels(number, rgb, texture=True)
                mix = self._variant.mix * self._tables[number].mix
                image = change[self._variant.change](image, drawn, texture, mix)
            images.append(image)
        return overlay.to_uint8(images)

    def _pixels(self, table: int, like: torch.Tensor, *, texture: bool) -> torch.Tensor:
        """A table's picture or texture float32 `[h, w, 3]`, for images of the size of `like`."""
        height, width = like.shape[1:3]
        key = (table, texture, height, width)
        if key not in self._ready:
            source = self._tables[table]
            scale = 2 if texture and self._variant.change == "all" else 1
            make = source.texture if texture else source.image
            pixels = torch.as_tensor(make(scale * height, scale * width))
            self._ready[key] = pixels.to(like.device).float()
        return self._ready[key]
