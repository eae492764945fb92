"""Define the named sizes of the network. No tensor library.

π0 and π0.5 have the same structure: a vision tower, a Gemma language model (together the VLM, which
encodes cameras and prompt) and a narrower Gemma, the action expert. Each layer of the expert
attends to the keys and values of the same layer of the VLM. Both Gemmas therefore have the same
depth, heads and head size.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from rlcore_flow.sizes import patches

from rlcore.contracts.errors import ConfigError


@dataclass(frozen=True)
class NetworkSize:
    """Everything that determines the shapes of weights, and the lengths of inputs and outputs.

    Attributes:
        vision: "siglip": the vision transformer of PaliGemma; "conv": strided convolutions, for
            networks trained from scratch on few images.
        vision_width, vision_depth, vision_heads, vision_mlp: sizes of the vision tower. For "conv"
            the depth is the number of convolutions of stride 2; heads and mlp are not used.
        image_size: side of the square images, in pixels.
        patch_size: side in pixels of the patch of one image token (2 ** vision_depth for "conv").
        depth: layers of each Gemma.
        heads, kv_heads, head_dim: attention of both Gemmas.
        vlm_width, vlm_mlp, vocab: sizes of the language model.
        expert_width, expert_mlp: sizes of the action expert.
        action_dim: D, entries of an action and of the state after padding.
        action_horizon: H, actions predicted per decision.
        max_token_len: L, prompt tokens after padding.
        pi05: whether the network is π0.5 (adaptive norms take the time; no state token), not π0.
    """

    vision: Literal["siglip", "conv"]
    vision_width: int
    vision_depth: int
    vision_heads: int
    vision_mlp: int
    image_size: int
    patch_size: int
    depth: int
    heads: int
    kv_heads: int
    head_dim: int
    vlm_width: int
    vlm_mlp: int
    vocab: int
    expert_width: int
    expert_mlp: int
    action_dim: int
    action_horizon: int
    max_token_len: int
    pi05: bool = False

    def __post_init__(self) -> None:
        if self.vision == "conv" and self.patch_size != 2**self.vision_depth:
            raise ConfigError(
                f"a conv tower of {self.vision_depth} layers has patch_size "
                f"{2**self.vision_depth}, got {self.patch_size}"
            )
        if self.heads % self.kv_heads or self.head_dim % 2 or self.expert_width % 2:
            raise ConfigError(
                "heads must be a multiple of kv_heads, head_dim and expert_width even; got "
                f"{self.heads}, {self.kv_heads}, {self.head_dim}, {self.expert_width}"
            )

    @property
    def image_tokens(self) -> int:
        """Tokens of one camera image."""
        return patches(self)

    @property
    def suffix_len(self) -> int:
        """Tokens of the action expert: H actions, in π0 preceded by one state token."""
        return self.action_horizon + (0 if self.pi05 else 1)


_TINY = NetworkSize(
    vision="conv",
    vision_width=64,
    vision_depth=3,
    vision_heads=0,
    vision_mlp=0,
    image_size=64,
    patch_size=8,
    depth=2,
    heads=4,
    kv_heads=4,
    head_dim=16,
    vlm_width=64,
    vlm_mlp=128,
    vocab=512,
    expert_width=64,
    expert_mlp=128,
    action_dim=8,
    action_horizon=10,
    max_token_len=24,
)
# PaliGemma 2B with a 300 M expert.
_PI0 = NetworkSize(
    vision="siglip",
    vision_width=1152,
    vision_depth=27,
    vision_heads=16,
    vision_mlp=4304,
    image_size=224,
    patch_size=14,
    depth=18,
    heads=8,
    kv_heads=1,
    head_dim=256,
    vlm_width=2048,
    vlm_mlp=16384,
    vocab=257152,
    expert_width=1024,
    expert_mlp=4096,
    action_dim=32,
    action_horizon=50,
    max_token_len=48,
)

SIZES: dict[str, NetworkSize] = {
    # 0.25 M parameters: learns from a few demonstrations on two CPU cores.
    "tiny": _TINY,
    # The same for two arms, with 14 entries like π0 for ALOHA.
    "tiny_two_arms": replace(_TINY, action_dim=14, action_horizon=16, max_token_len=32),
    # 0.26 M: the published layout as small as possible, to compare with reference numbers.
    "tiny_siglip": NetworkSize(
        vision="siglip",
        vision_width=32,
        vision_depth=2,
        vision_heads=4,
        vision_mlp=64,
        image_size=224,
        patch_size=14,
        depth=3,
        heads=8,
        kv_heads=1,
        head_dim=16,
        vlm_width=64,
        vlm_mlp=128,
        vocab=512,
        expert_width=32,
        expert_mlp=64,
        action_dim=32,
        action_horizon=10,
        max_token_len=48,
    ),
    # 14 M: the published layout in miniature, for one small GPU.
    "small": NetworkSize(
        vision="siglip",
        vision_width=192,
        vision_depth=4,
        vision_heads=4,
        vision_mlp=768,
        image_size=112,
        patch_size=14,
        depth=6,
        heads=8,
        kv_heads=1,
        head_dim=32,
        vlm_width=256,
        vlm_mlp=1024,
        vocab=1024,
        expert_width=256,
        expert_mlp=1024,
        action_dim=32,
        action_horizon=10,
        max_token_len=64,
    ),
    # As published.
    "pi0": _PI0,
    "pi05": replace(_PI0, max_token_len=200, pi05=True),
}
