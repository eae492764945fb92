"""Compose a policy's image from a rendered image, a background picture and a texture.

The pixels of the robot and the objects are rendered; all other pixels come from a photograph of a
table. Held-out textures are blended over the rendered part ("drawn") or over the whole image. All
images are float32 `[H, W, 3]` in 0..255 unless noted.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
import torch.nn.functional as F


def behind(rgb: torch.Tensor, drawn: torch.Tensor, picture: torch.Tensor) -> torch.Tensor:
    """Return `rgb` where `drawn` (bool `[H, W]`) is true, and `picture` elsewhere."""
    return torch.where(drawn[..., None], rgb, picture)


def texture_on_drawn(
    image: torch.Tensor, drawn: torch.Tensor, texture: torch.Tensor, mix: float
) -> torch.Tensor:
    """Blend `texture`, stretched to the bounding box of the rendered part, over that part."""
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

    The crop of the texture begins at the centre of the rendered part's bounding box. So it shifts
    whenever the robot moves.
    """
    height, width = drawn.shape
    box = _box(drawn)
    row, column = (0, 0) if box is None else (_middle(side) for side in box)
    row = min(max(row, 1), height - 1)
    column = min(max(column, 1), width - 1)
    return (1 - mix) * image + mix * texture[row : row + height, column : column + width]


def to_uint8(images: Iterable[torch.Tensor]) -> torch.Tensor:
    """Clamp images to 0..255 and stack them to uint8 `[B, H, W, 3]`."""
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
