"""Define what determines the shapes of towers and stacks of layers. No tensor library."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol


class TowerSize(Protocol):
    """Sizes of a vision tower, a part of a network's sizes.

    Attributes:
        vision: "siglip": a vision transformer; "conv": strided convolutions.
        vision_width, vision_depth, vision_heads, vision_mlp: for "conv" the depth is the number of
            convolutions of stride 2; heads and mlp are not used.
        image_size: side of the square images, in pixels.
        patch_size: side in pixels of a patch (2 ** vision_depth for "conv").
    """

    @property
    def vision(self) -> Literal["siglip", "conv"]: ...
    @property
    def vision_width(self) -> int: ...
    @property
    def vision_depth(self) -> int: ...
    @property
    def vision_heads(self) -> int: ...
    @property
    def vision_mlp(self) -> int: ...
    @property
    def image_size(self) -> int: ...
    @property
    def patch_size(self) -> int: ...


class FlowSize(Protocol):
    """Sizes of a network that its heads, the noise and the cache of a decision depend on.

    Attributes:
        vlm_width, expert_width: widths of the tokens of VLM and action expert.
        depth, kv_heads, head_dim: layers of either, and their keys and values.
        action_dim: D.
        action_horizon: H.
    """

    @property
    def vlm_width(self) -> int: ...
    @property
    def expert_width(self) -> int: ...
    @property
    def depth(self) -> int: ...
    @property
    def kv_heads(self) -> int: ...
    @property
    def head_dim(self) -> int: ...
    @property
    def action_dim(self) -> int: ...
    @property
    def action_horizon(self) -> int: ...


def patches(size: TowerSize) -> int:
    """Return the tokens of one image that leave the tower."""
    return (size.image_size // size.patch_size) ** 2


def conv_channels(size: TowerSize) -> tuple[int, ...]:
    """Return the channels of the conv tower: 3 for RGB, then doubling up to vision_width."""
    return (3, *(size.vision_width >> i for i in reversed(range(size.vision_depth))))


@dataclass(frozen=True)
class StackSize:
    """Sizes of a stack of transformer layers.

    Attributes:
        depth: number of layers.
        heads, kv_heads, head_dim: attention: number of heads of queries, number of heads of keys
            and values, and entries of each head.
        width, mlp: of the tokens, and inside the MLPs.
    """

    depth: int
    heads: int
    kv_heads: int
    head_dim: int
    width: int
    mlp: int
