"""Resize RoboTwin's frames to those that policies observe: 224 x 224. Imports numpy only.

Each resizing here is linear and separable in rows and columns, so it is two matrix products.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

SIZE = 224
AREA = 0.9  # fraction of the frame's area that the centre crop keeps


def seen(frame: np.ndarray, *, center_crop: bool) -> np.ndarray:
    """Resize a camera's frame uint8 `[H, W, 3]` to the policy's uint8 `[224, 224, 3]`.

    With `center_crop` the central 90% of the area are stretched to a square with bilinear
    interpolation, as OpenVLA-OFT's data are read. Otherwise the whole frame is resized with its
    aspect ratio and black bars, each pixel as a weighted mean of those it covers, as in openpi.
    """
    if center_crop:
        return _filtered(_crop(frame.shape[0]), frame, _crop(frame.shape[1]))
    height, width = frame.shape[:2]
    ratio = max(height, width) / SIZE
    rows = int(height / ratio)
    columns = int(width / ratio)
    out = np.zeros((SIZE, SIZE, 3), dtype=np.uint8)
    top = (SIZE - rows) // 2
    left = (SIZE - columns) // 2
    out[top : top + rows, left : left + columns] = _filtered(
        _shrink(height, rows), frame, _shrink(width, columns)
    )
    return out


def _filtered(rows: np.ndarray, frame: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Return `rows @ frame @ columns^T` for each colour, rounded to uint8."""
    tall = np.tensordot(rows, frame.astype(np.float32), axes=(1, 0))
    filtered = np.tensordot(columns, tall, axes=(1, 1)).transpose(1, 0, 2)
    return np.clip(np.rint(filtered), 0, 255).astype(np.uint8)


@lru_cache
def _crop(size: int) -> np.ndarray:
    """Return weights `[224, size]` of the centre crop, with linear interpolation."""
    side = np.sqrt(AREA)
    places = ((1 - side) / 2 + side * np.arange(SIZE) / (SIZE - 1)) * (size - 1)
    return np.maximum(0, 1 - np.abs(places[:, None] - np.arange(size))).astype(np.float32)


@lru_cache
def _shrink(size: int, new_size: int) -> np.ndarray:
    """Return weights `[new_size, size]` of a triangle filter.

    Its base is two new pixels wide when shrinking, and two old pixels when enlarging.
    """
    ratio = size / new_size
    width = max(ratio, 1.0)
    centers = (np.arange(new_size) + 0.5) * ratio - 0.5
    weights = np.maximum(0, 1 - np.abs(centers[:, None] - np.arange(size)) / width)
    return (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)
