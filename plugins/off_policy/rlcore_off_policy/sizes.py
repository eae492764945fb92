"""Sizes of the layers of encoders and MLPs. Imports no tensor library, so that a model's spec can
count its parameters."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

PIXELS = 64
"""Longest side of an image after downscaling."""
VOCABULARY = 1024
"""Token ids are taken modulo this."""
EMBEDDING_WIDTH = 16
WIDTH = 64
"""Features of each image, and of all float inputs together, if a network sets no other number."""
MOST_IMAGES = 8
MOST_NUMBERS = 4096
"""Images, and floats of the inputs or entries of a chunk (50 actions of 32 entries are 1,600), for
which :func:`critic_parameters` and :func:`actor_parameters` hold."""
_CHANNELS = (16, 32, 32, 32)
_SMALLEST = 4  # side at which convolutions end


class Convolution(NamedTuple):
    """The sizes of a convolution, those of its kernel and padding in pixels of both directions."""

    inputs: int
    outputs: int
    kernel: int
    stride: int
    padding: int

    def side(self, side: int) -> int:
        """Return the side of what it gives for an image of this side, in pixels."""
        return (side + 2 * self.padding - self.kernel) // self.stride + 1


def convolutions(height: int, width: int, channels: int) -> tuple[list[Convolution], int]:
    """Return the convolutions of an image of at most PIXELS a side, and the numbers they leave.

    Convolutions have stride 4 while the longer side exceeds PIXELS / 2, then stride 2, until it is
    at most 4 or four convolutions are made.
    """
    sides = [min(height, PIXELS), min(width, PIXELS)]
    found = []
    for outputs in _CHANNELS:
        if max(sides) <= _SMALLEST:
            break
        kernel, stride, padding = (8, 4, 2) if max(sides) > PIXELS // 2 else (3, 2, 1)
        layer = Convolution(channels, outputs, kernel, stride, padding)
        found.append(layer)
        channels = outputs
        sides = [layer.side(side) for side in sides]
    return found, channels * sides[0] * sides[1]


def encoder_parameters(images: Sequence[tuple[int, int]], state: int, width: int) -> int:
    """Return the parameters of an encoder that also reads token ids.

    Args:
        images: height and width of each image, of three channels.
        state: entries of the state; 0: there is none.
        width: features of each image, and of the state.
    """
    count = VOCABULARY * EMBEDDING_WIDTH
    count += _bounded_parameters(state, width) if state else 0
    for height, across in images:
        layers, left = convolutions(height, across, 3)
        count += sum(
            layer.outputs * (layer.inputs * layer.kernel**2 + 1) for layer in layers
        ) + _bounded_parameters(left, width)
    return count


def critic_parameters(heads: int, hidden: Sequence[int], width: int = WIDTH) -> int:
    """Return an upper bound of the parameters of :class:`rlcore_off_policy.critic.Critic`, for the
    memory estimate, which knows settings but no inputs.

    Args:
        heads: E.
        hidden: widths of the hidden layers of a head.
        width: features of each image, and of all floats together.
    """
    images = [(PIXELS, PIXELS)] * MOST_IMAGES
    head = mlp_parameters(_most_features(width) + MOST_NUMBERS, hidden, 1)
    return encoder_parameters(images, MOST_NUMBERS, width) + heads * head


def actor_parameters(hidden: Sequence[int], width: int = WIDTH) -> int:
    """Return an upper bound of the parameters of an MLP from a critic's features, and a chunk, to
    mean and spread of a chunk; see :func:`critic_parameters`."""
    return mlp_parameters(_most_features(width) + MOST_NUMBERS, hidden, 2 * MOST_NUMBERS)


def _most_features(width: int) -> int:
    return (MOST_IMAGES + 1) * width + EMBEDDING_WIDTH


def encoder_activations(images: Sequence[tuple[int, int]], state: int, width: int) -> int:
    """Return the numbers per row that the backward pass of an encoder needs, without token ids.

    For each image these are its pixels, downscaled, and what each convolution gives. Of the bounded
    layer of an image or of the state, they are what LayerNorm gets and what tanh gives.

    Args:
        images, state, width: as for :func:`encoder_parameters`.
    """
    count = state + 2 * width if state else 0
    for height, across in images:
        sides = [min(height, PIXELS), min(across, PIXELS)]
        count += 3 * sides[0] * sides[1] + 2 * width
        layers, _ = convolutions(height, across, 3)
        for layer in layers:
            sides = [layer.side(side) for side in sides]
            count += layer.outputs * sides[0] * sides[1]
    return count


def largest_image(images: Sequence[tuple[int, int]]) -> int:
    """Return the numbers per row that an encoder holds at most at once while it reads an image.

    These are the image as floats, and what downscaling or the first two convolutions give.
    """
    most = 0
    for height, across in images:
        shrunk = [min(height, PIXELS), min(across, PIXELS)]
        pixels = 3 * shrunk[0] * shrunk[1]
        sides = shrunk
        given = []
        for layer in convolutions(height, across, 3)[0]:
            sides = [layer.side(side) for side in sides]
            given.append(layer.outputs * sides[0] * sides[1])
        large = max(height, across) > PIXELS
        read = 3 * height * across + pixels if large else 0
        most = max(most, read, pixels + sum(given[:2]))
    return most


def mlp_activations(size: int, hidden: Sequence[int]) -> int:
    """Return the numbers per row that the backward pass of an MLP needs: what linear layers and
    LayerNorms get."""
    return size + 2 * sum(hidden)


def mlp_parameters(size: int, hidden: Sequence[int], outputs: int) -> int:
    """Return the parameters of an MLP: linear layers, with LayerNorm between them."""
    linear = sum((before + 1) * after for before, after in pairwise([size, *hidden, outputs]))
    return linear + 2 * sum(hidden)


def _bounded_parameters(size: int, width: int) -> int:
    """Return the parameters of a linear layer with LayerNorm."""
    return (size + 1) * width + 2 * width
