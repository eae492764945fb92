"""Resize camera frames to the model's image size. Deterministic; numpy and Pillow only."""

from __future__ import annotations

import numpy as np
from PIL import Image


def resize_with_pad(frames: np.ndarray, height: int, width: int) -> np.ndarray:
    """Resize frames without distortion, centre them and pad with black, as openpi's client does.

    Uses Pillow's antialiased bilinear filter, with which openpi's checkpoints were trained and are
    served.

    Args:
        frames: uint8 `[B, h, w, 3]`, upright RGB.
        height, width: size of the result, in pixels.

    Returns:
        uint8 `[B, height, width, 3]`; `frames` itself if it already has that size.
    """
    source_height, source_width = frames.shape[1:3]
    if (source_height, source_width) == (height, width):
        return frames
    ratio = max(source_width / width, source_height / height)
    inner_height = int(source_height / ratio)
    inner_width = int(source_width / ratio)
    top = (height - inner_height) // 2
    left_edge = (width - inner_width) // 2
    result = np.zeros((len(frames), height, width, 3), dtype=np.uint8)
    for row, frame in enumerate(frames):
        scaled = Image.fromarray(frame).resize(
            (inner_width, inner_height), Image.Resampling.BILINEAR
        )
        result[row, top : top + inner_height, left_edge : left_edge + inner_width] = np.asarray(
            scaled
        )
    return result
