"""Reduce the uploaded textures to the resolution of the frames."""

from __future__ import annotations

import math

import mujoco
import numpy as np

# Longest side of an uploaded texture in heights of the frame: one that spans the frame is still
# sharp if a sixteenth of it fills the frame.
LONGEST = 16


def reduce_textures(model: mujoco.MjModel, height: int) -> None:
    """Halve both sides of large textures until they are no longer than :data:`LONGEST`, in place.

    Each texel of the smaller texture is the mean of a block. GL itself computes such means for
    pixels that cover several texels (mipmaps), but from the full texture, which costs memory:
    LIBERO has textures of 4096 x 4096 texels, which are uploaded for each task and camera.

    Args:
        model: model to change. Textures of cubes and skies are not reduced, and other textures only
            until one of their sides is odd.
        height: height of the highest frame, in pixels.
    """
    for number in np.nonzero(model.tex_type == mujoco.mjtTexture.mjTEXTURE_2D.value)[0]:
        rows = int(model.tex_height[number])
        columns = int(model.tex_width[number])
        side = 1  # of a block of texels that becomes one
        while max(rows, columns) > LONGEST * height * side and not (
            rows % (2 * side) or columns % (2 * side)
        ):
            side *= 2
        blocks = (rows // side, side, columns // side, side, int(model.tex_nchannel[number]))
        first = model.tex_adr[number]
        texels = model.tex_data[first : first + math.prod(blocks)].reshape(blocks)
        means = np.rint(texels.mean(axis=(1, 3), dtype=np.float32)).astype(np.uint8)
        model.tex_height[number] = means.shape[0]
        model.tex_width[number] = means.shape[1]
        model.tex_data[first : first + means.size] = means.ravel()
