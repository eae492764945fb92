"""Define the named sizes of the network. No tensor library.

A vision tower and a language model, SmolLM2, read cameras, prompt and state; together they are the
VLM. A narrower language model of as many layers, the action expert, denoises actions. Its layers
attend to the keys and values of the same layer of the VLM: in self-attention together with its own,
in cross-attention to those alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rlcore_flow.sizes import patches

from rlcore.contracts.errors import ConfigError


@dataclass(frozen=True)
class NetworkSize:
    """Everything that determines the shapes of weights, and the lengths of inputs and outputs.

    Attributes:
        vision: "siglip": the vision transformer of SmolVLM2; "conv": strided convolutions, for
            networks trained from scratch on few images.
        vision_width, vision_depth, vision_heads, vision_mlp: sizes of the vision tower. For "conv"
            the depth is the number of convolutions of stride 2; heads and mlp are not used.
        image_size: side of the square images, in pixels.
        patch_size: side of a patch, in pixels (2 ** vision_depth for "conv").
        shuffle: side of the square of patches that are joined to one token.
        depth: layers of language model and expert.
        heads, kv_heads, head_dim: attention of both.
        vlm_width, vlm_mlp, vocab: sizes of the language model.
        expert_width, expert_mlp: sizes of the action expert.
        self_attention_every: n: each n-th layer of the expert, from the first on, has
            self-attention, the others cross-attention; 1: all have self-attention, 0: none has.
        action_dim: D, entries of an action after padding.
        state_dim: entries of the state after padding.
        action_horizon: H, actions predicted per decision.
        max_token_len: L, prompt tokens after padding.
    """

    vision: Literal["siglip", "conv"]
    vision_width: int
    vision_depth: int
    vision_heads: int
    vision_mlp: int
    image_size: int
    patch_size: int
    shuffle: int
    depth: int
    heads: int
    kv_heads: int
    head_dim: int
    vlm_width: int
    vlm_mlp: int
    vocab: int
    expert_width: int
    expert_mlp: int
    self_attention_every: int
    action_dim: int
    state_dim: int
    action_horizon: int
    max_token_len: int

    def __post_init__(self) -> None:
        side = self.image_size // self.patch_size
        if self.image_size % self.patch_size or side % self.shuffle:
            raise ConfigError(
                f"images of {self.image_size} pixels have no whole tokens of {self.shuffle} x "
                f"{self.shuffle} patches of {self.patch_size} pixels"
            )
        if self.heads % self.kv_heads or self.head_dim % 2 or self.expert_width % 2:
            raise ConfigError(
                "heads must be a multiple of kv_heads, head_dim and expert_width even; got "
                f"{self.heads}, {self.kv_heads}, {self.head_dim}, {self.expert_width}"
            )

    @property
    def image_tokens(self) -> int:
        """Tokens of one camera image."""
        return patches(self) // self.shuffle**2

    def prefix_len(self, cameras: int) -> int:
        """Return the tokens of cameras, prompt and state."""
        return cameras * self.image_tokens + self.max_token_len + 1

    def crosses(self, layer: int) -> bool:
        """Return whether a layer of the expert has cross-attention."""
        every = self.self_attention_every
        return every == 0 or layer % every != 0


SIZES: dict[str, NetworkSize] = {
    # 0.25 M parameters: learns from a few demonstrations on two CPU cores.
    "tiny": NetworkSize(
        vision="conv",
        vision_width=64,
        vision_depth=3,
        vision_heads=0,
        vision_mlp=0,
        image_size=64,
        patch_size=8,
        shuffle=2,
        depth=2,
        heads=4,
        kv_heads=4,
        head_dim=16,
        vlm_width=64,
        vlm_mlp=128,
        vocab=512,
        expert_width=64,
        expert_mlp=128,
        self_attention_every=2,
        action_dim=8,
        state_dim=16,
        action_horizon=10,
        max_token_len=24,
    ),
    # The published layout as small as possible, to compare with LeRobot's code.
    "tiny_siglip": NetworkSize(
        vision="siglip",
        vision_width=32,
        vision_depth=2,
        vision_heads=4,
        vision_mlp=64,
        image_size=64,
        patch_size=8,
        shuffle=2,
        depth=4,
        heads=6,
        kv_heads=2,
        head_dim=8,
        vlm_width=48,
        vlm_mlp=64,
        vocab=512,
        expert_width=36,
        expert_mlp=256,
        self_attention_every=2,
        action_dim=32,
        state_dim=32,
        action_horizon=6,
        max_token_len=24,
    ),
    # As published: the first 16 of the 32 layers of SmolVLM2-500M-Video-Instruct.
    "smolvla": NetworkSize(
        vision="siglip",
        vision_width=768,
        vision_depth=12,
        vision_heads=12,
        vision_mlp=3072,
        image_size=512,
        patch_size=16,
        shuffle=4,
        depth=16,
        heads=15,
        kv_heads=5,
        head_dim=64,
        vlm_width=960,
        vlm_mlp=2560,
        vocab=49_280,
        expert_width=720,
        expert_mlp=2048,
        self_attention_every=2,
        action_dim=32,
        state_dim=32,
        action_horizon=50,
        max_token_len=48,
    ),
}
WHOLE_DEPTH = 32
"""Layers of the language model of SmolVLM2-500M-Video-Instruct."""


def expert_mlp(width: int) -> int:
    """Return the width inside the expert's MLPs: 8/3 of its width, rounded up to 256s."""
    hidden = 4 * int(2 * width / 3)
    return 256 * -(-hidden // 256)
