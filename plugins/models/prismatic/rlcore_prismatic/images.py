"""Resize camera frames to the network's image size. Deterministic; numpy and Pillow only.

Pixels are stored as uint8. Normalisation happens in the towers: each has its own mean and std.
"""

from __future__ import annotations

import math

import numpy as np
from PIL import Image

CROPPED_AREA = 0.9
"""Share of the image's area that a centre crop keeps, as in OpenVLA's evaluations."""


def resize(frames: np.ndarray, side: int) -> np.ndarray:
    """Resize frames uint8 `[B, h, w, 3]` to `[B, side, side, 3]`, ignoring the aspect ratio.

    Uses Pillow's antialiased bicubic filter ("resize-naive"). Returns the input itself if it has
    that size.
    """
    if frames.shape[1:3] == (side, side):
        return frames
    scaled = [
        Image.fromarray(frame).resize((side, side), Image.Resampling.BICUBIC) for frame in frames
    ]
    return np.stack([np.asarray(image) for image in scaled])


def center_crop(frames: np.ndarray) -> np.ndarray:
    """Crop the middle of frames uint8 `[B, h, w, 3]` and scale it back to their size.

    The crop has a share of :data:`CROPPED_AREA` of the area. It is bilinear like TensorFlow's
    crop_and_resize, which cropped the training data: output pixel i of n reads position
    offset (n - 1) + i scale,  where scale is the share of a side.
    """
    height, width = frames.shape[1:3]
    rows = _middle(height)
    columns = _middle(width)
    values = np.einsum("yh,bhwc,xw->byxc", rows, frames.astype(np.float64), columns, optimize=True)
    # TensorFlow goes through floats in [0, 1], and back by x 255.5, truncated
    return np.clip(values / 255.0 * 255.5, 0, 255).astype(np.uint8)


def _middle(size: int) -> np.ndarray:
    """Return weights `[size, size]` that linearly interpolate the middle of a line."""
    share = math.sqrt(CROPPED_AREA)
    positions = (1 - share) / 2 * (size - 1) + np.arange(size) * share
    low = np.minimum(np.floor(positions).astype(int), size - 1)
    weights = np.zeros((size, size))
    lines = np.arange(size)
    np.add.at(weights, (lines, low), 1 - (positions - low))
    np.add.at(weights, (lines, np.minimum(low + 1, size - 1)), positions - low)
    return weights
