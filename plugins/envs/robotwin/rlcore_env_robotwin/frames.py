"""RoboTwin's frames as policies see them: 224 x 224. numpy only.

Every way of resizing here is linear in the pixels, rows and columns apart, so each is two matrices.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

SIZE = 224
AREA = 0.9  # share of the frame that is left of it by the centre crop


def seen(frame: np.ndarray, *, center_crop: bool) -> np.ndarray:
    """A camera's frame uint8 `[H, W, 3]` as the policy sees it, uint8 `[224, 224, 3]`.

    center_crop: the middle 90% of the area, stretched to a square, with the nearest four pixels in
    each place, as OpenVLA-OFT's data are read. Else: the whole frame in its proportions, each pixel
    the weighted mean of those it covers, with black bars, as openpi resizes.
    """
    if center_crop:
        return _applied(_crop(frame.shape[0]), frame, _crop(frame.shape[1]))
    height, width = frame.shape[:2]
    ratio = max(height, width) / SIZE
    rows, columns = int(height / ratio), int(width / ratio)
    out = np.zeros((SIZE, SIZE, 3), dtype=np.uint8)
    top, left = (SIZE - rows) // 2, (SIZE - columns) // 2
    out[top : top + rows, left : left + columns] = _applied(
        _shrink(height, rows), frame, _shrink(width, columns)
    )
    return out


def _applied(rows: np.ndarray, frame: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """`rows @ frame @ columns^T` for each colour, rounded to uint8."""
    tall = np.tensordot(rows, frame.astype(np.float32), axes=(1, 0))
    made = np.tensordot(columns, tall, axes=(1, 1)).transpose(1, 0, 2)
    return np.clip(np.rint(made), 0, 255).astype(np.uint8)


@lru_cache
def _crop(size: int) -> np.ndarray:
    """Weights `[224, size]` of the pixels of the middle, each place between its two neighbours."""
    side = np.sqrt(AREA)
    places = ((1 - side) / 2 + side * np.arange(SIZE) / (SIZE - 1)) * (size - 1)
    return np.maximum(0, 1 - np.abs(places[:, None] - np.arange(size))).astype(np.float32)


@lru_cache
def _shrink(size: int, made: int) -> np.ndarray:
    """Weights `[made, size]` of a triangle as wide as two of the new pixels, or two old ones."""
    ratio = size / made
    width = max(ratio, 1.0)
    centers = (np.arange(made) + 0.5) * ratio - 0.5
    weights = np.maximum(0, 1 - np.abs(centers[:, None] - np.arange(size)) / width)
    return (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)
