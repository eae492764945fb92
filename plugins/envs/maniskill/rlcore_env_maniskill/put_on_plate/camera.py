"""The policy's camera, and the composition of its image."""

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
# pose in the world of the camera of the BridgeData V2 recordings: pose of the robot's base times
# pose of the camera relative to it
POSE = sapien.Pose([0.147, 0.028, 0.870], [0, 0, 0, 1]) * sapien.Pose(
    [0.0, -0.16, 0.36], [0.8992917, -0.09263245, 0.35892478, 0.23209205]
)
HEIGHT = 480
WIDTH = 640
INTRINSIC = np.array([[623.588, 0, 319.501], [0, 623.588, 239.545], [0, 0, 1]])


def camera_config(sizes: Mapping[str, Any]) -> CameraConfig:
    """Return the camera with the size in ManiSkill's `sensor_configs`, by default 640 x 480.

    An image of another size shows the same view, scaled along each axis, as if a policy had resized
    the default one.

    Args:
        sizes: `height` and `width` in pixels, for all cameras or below the name of this one.
    """
    sizes = {**sizes, **sizes.get(CAMERA, {})}
    height = sizes.get("height", HEIGHT)
    width = sizes.get("width", WIDTH)
    scaling = np.diag([width / WIDTH, height / HEIGHT, 1.0])
    return CameraConfig(
        uid=CAMERA, pose=POSE, width=width, height=height, intrinsic=scaling @ INTRINSIC
    )


class Composer:
    """Composes rendered robot and objects with a table's picture and the variant's texture.

    Args:
        assets: provides pictures and textures.
        variant: determines how a texture is applied.
        drawn_ids: segmentation ids of the bodies that are kept: robot, objects and plates.
    """

    def __init__(self, assets: Assets, variant: Variant, drawn_ids: torch.Tensor) -> None:
        self.drawn_ids = drawn_ids
        self._tables = assets.tables
        self._variant = variant
        self._ready: dict[tuple[int, bool, int, int], torch.Tensor] = {}

    def drawn(self, segmentation: torch.Tensor) -> torch.Tensor:
        """Return which pixels of a segmentation `[B, H, W, 1]` are kept, bool `[B, H, W]`."""
        return torch.isin(segmentation[..., 0], self.drawn_ids.to(segmentation.device))

    def compose(
        self, rgb: torch.Tensor, segmentation: torch.Tensor, choices: Mapping[str, torch.Tensor]
    ) -> torch.Tensor:
        """Return the composed images, uint8 `[B, H, W, 3]`.

        Args:
            rgb: rendered images, uint8 `[B, H, W, 3]`.
            segmentation: segmentation ids of their pixels, `[B, H, W, 1]`.
            choices: values of the factors `table` and, if the variant has it, `texture`, `[B]`.
        """
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
        """Return a table's picture or texture, float32 `[h, w, 3]`, cached by size.

        It has the size of the images `like`, or twice that size for a texture that is blended over
        the whole image.
        """
        height, width = like.shape[1:3]
        key = (table, texture, height, width)
        if key not in self._ready:
            source = self._tables[table]
            scale = 2 if texture and self._variant.change == "all" else 1
            make = source.texture if texture else source.image
            pixels = torch.as_tensor(make(scale * height, scale * width))
            self._ready[key] = pixels.to(like.device).float()
        return self._ready[key]
