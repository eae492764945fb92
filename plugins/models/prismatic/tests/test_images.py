"""Resizing and cropping, worked by hand."""

from __future__ import annotations

import numpy as np
from PIL import Image
from rlcore_prismatic.images import center_crop, resize


def test_resizing_is_bicubic_and_ignores_the_shape():
    frames = np.random.default_rng(0).integers(0, 256, (2, 12, 20, 3), dtype=np.uint8)
    resized = resize(frames, 8)
    assert resized.shape == (2, 8, 8, 3) and resized.dtype == np.uint8
    expected = Image.fromarray(frames[1]).resize((8, 8), Image.Resampling.BICUBIC)
    np.testing.assert_array_equal(resized[1], np.asarray(expected))
    assert resize(resized, 8) is resized


def test_cropping_by_hand():
    """A ramp of 21 pixels, 10 a pixel: output i reads place 10 + (i - 10) sqrt(.9), so its value
    is ten times that; and 255.5 / 255 of it, cut off."""
    ramp = np.arange(0, 210, 10, dtype=np.uint8)
    frames = np.broadcast_to(ramp[None, None, :, None], (1, 21, 21, 3))
    places = 10 + (np.arange(21) - 10) * np.sqrt(0.9)
    expected = np.floor(10 * places / 255 * 255.5)
    cropped = center_crop(frames)
    assert cropped.dtype == np.uint8
    for row in (0, 10, 20):
        np.testing.assert_array_equal(cropped[0, row, :, 1], expected)
    np.testing.assert_array_equal(center_crop(frames.transpose(0, 2, 1, 3))[0, :, 3, 0], expected)


def test_a_plain_image_stays_plain():
    for value in (0, 255):
        frames = np.full((1, 9, 9, 3), value, dtype=np.uint8)
        np.testing.assert_array_equal(center_crop(frames), frames)
