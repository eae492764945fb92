"""The picture behind the scene, and textures over it: how a policy's image is composed.

The simulator renders the robot and the objects; every other pixel comes from a photograph of a
table. Held-out textures are blended over the rendered part ("drawn") or over the whole image.
All images are float32 `[H, W, 3]` in 0..255 unless noted.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
import torch.nn.functional as F


def behind(rgb: torch.Tensor, drawn: torch.Tensor, picture: torch.Tensor) -> torch.Tensor:
    """`rgb` where `drawn` (bool `[H, W]`), else `picture`."""
    return torch.where(drawn[..., None], rgb, picture)


def texture_on_drawn(
    image: torch.Tensor, drawn: torch.Tensor, texture: torch.Tensor, mix: float
) -> torch.Tensor:
    """Blend `texture` over the rendered part, stretched over its bounding box."""
    box = _box(drawn)
    if box is None:
        return image
    rows, columns = box
    size = (rows.stop - rows.start, columns.stop - columns.start)
    stretched = F.interpolate(
        texture.permute(2, 0, 1)[None], size=size, mode="bilinear", align_corners=False
    )[0].permute(1, 2, 0)
    mixed = image.clone()
    inside = image[rows, columns]
    mixed[rows, columns] = torch.where(
        drawn[rows, columns, None], (1 - mix) * inside + mix * stretched, inside
    )
    return mixed


def texture_on_all(
    image: torch.Tensor, drawn: torch.Tensor, texture: torch.Tensor, mix: float
) -> torch.Tensor:
    """Blend `texture` (twice the image's size) over every pixel.

    The crop of it moves with the middle of the rendered part, so it flickers while the robot
    moves.
    """
    height, width = drawn.shape
    box = _box(drawn)
    top, left = (0, 0) if box is None else (_middle(side) for side in box)
    top, left = min(max(top, 1), height - 1), min(max(left, 1), width - 1)
    return (1 - mix) * image + mix * texture[top : top + height, left : left + width]


def to_uint8(images: Iterable[torch.Tensor]) -> torch.Tensor:
    """Stack images to uint8 `[B, H, W, 3]`."""
    return torch.stack(list(images)).clamp(0, 255).to(torch.uint8)


def _box(drawn: torch.Tensor) -> tuple[slice, slice] | None:
    spans = []
    for axis in (1, 0):
        hit = drawn.any(dim=axis).nonzero()
        if len(hit) == 0:
            return None
        spans.append(slice(int(hit[0]), int(hit[-1]) + 1))
    return spans[0], spans[1]


def _middle(side: slice) -> int:
    return (side.start + side.stop - 1) // 2
