"""Camera frames to the model's size. Deterministic, row by row; numpy and Pillow only."""

from __future__ import annotations

import numpy as np
from PIL import Image


def resize_with_pad(frames: np.ndarray, height: int, width: int) -> np.ndarray:
    """Scale frames to fit, centre them and pad with black, as openpi's client does.

    Args:
        frames: uint8 `[B, h, w, 3]`, upright RGB.
        height, width: of the result, in pixels.

    Returns:
        uint8 `[B, height, width, 3]`: Pillow's antialiased bilinear filter, with which openpi's
        checkpoints were trained and are served; the input itself if the size is right.
    """
    source_height, source_width = frames.shape[1:3]
    if (source_height, source_width) == (height, width):
        return frames
    ratio = max(source_width / width, source_height / height)
    inner_height, inner_width = int(source_height / ratio), int(source_width / ratio)
    top, left = (height - inner_height) // 2, (width - inner_width) // 2
    result = np.zeros((len(frames), height, width, 3), dtype=np.uint8)
    for row, frame in enumerate(frames):
        scaled = Image.fromarray(frame).resize(
            (inner_width, inner_height), Image.Resampling.BILINEAR
        )
        result[row, top : top + inner_height, left : left + inner_width] = np.asarray(scaled)
    return result
