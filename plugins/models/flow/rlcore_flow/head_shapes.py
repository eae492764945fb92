"""Define names and shapes of the RL heads' weights. No tensor library."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from rlcore_flow.shapes import linear_shapes

VALUE_HEAD = "value_head"
NOISE_HEAD = "noise_head"
HEADS_FILE = "rl_heads.safetensors"
NOISE_HIDDEN = (128, 64)
"""Widths of the hidden layers of the noise head."""


def head_shapes(head: str, widths: Sequence[int]) -> dict[str, tuple[int, ...]]:
    """Return the shapes of a head, an MLP with activations between its linear layers.

    Args:
        head: :data:`VALUE_HEAD` or :data:`NOISE_HEAD`.
        widths: of the input, the hidden layers and the output.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    for layer, (inputs, outputs) in enumerate(pairwise(widths)):
        shapes |= dict(linear_shapes(f"{head}.mlp.{2 * layer}", inputs, outputs))
    return shapes
