"""Define the named sizes of the network. No tensor library.

A Prismatic model has one or two vision transformers whose patch features are concatenated, a
projector, and a Llama that reads [BOS | patches | text].
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from rlcore.contracts.errors import ConfigError, did_you_mean

BOS = 1
EOS = 2
"""Ids of the tokens that begin and end a sequence, as in Llama's tokenizer."""


@dataclass(frozen=True)
class TowerSize:
    """One vision transformer.

    Attributes:
        width, depth, heads, mlp: of its blocks.
        mean, std: of pixels in [0, 1], per colour; its input is (x - mean) / std.
        timm_id: the name of its architecture in timm, as in published settings.
        class_token, registers: tokens before the patches; they are dropped at the end.
        layer_scale: whether both branches of a block have learnt scales.
        pooling: whether an attention pool follows, as in SigLIP. Nothing reads it, but
            checkpoints hold it.
        convs: embed patches by this many convolutions of stride 2 instead of a linear map, for
            networks trained from scratch on few images.
        sincos: amplitude of the 2-D sine-cosine position embeddings that a fresh tower starts with
            (He et al. 2022); 0: small random ones. A small network trained from scratch must first
            learn where things are, and random embeddings take long to encode it.
    """

    width: int
    depth: int
    heads: int
    mlp: int
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    timm_id: str = ""
    class_token: bool = False
    registers: int = 0
    layer_scale: bool = False
    pooling: bool = False
    convs: int = 0
    sincos: float = 0.0

    @property
    def prefix(self) -> int:
        """Tokens before the patches."""
        return int(self.class_token) + self.registers


@dataclass(frozen=True)
class PrismaticSize:
    """Everything that determines the shapes of the weights.

    Attributes:
        towers: one or two; their features are concatenated.
        image_size: side of the square images, in pixels.
        patch_size: side of a patch, in pixels.
        width, mlp, depth, heads, kv_heads: of the Llama.
        vocab: tokens, the last `action_bins` of which stand for actions.
        padding_rows: additional rows of the embedding; the first is the padding token.
        action_bins: values an action entry can take.
    """

    towers: tuple[TowerSize, ...]
    image_size: int
    patch_size: int
    width: int
    mlp: int
    depth: int
    heads: int
    kv_heads: int
    vocab: int
    padding_rows: int = 64
    action_bins: int = 256

    @property
    def patches(self) -> int:
        """P: patches of one image."""
        return (self.image_size // self.patch_size) ** 2

    @property
    def vision_width(self) -> int:
        """Width of a patch's features."""
        return sum(tower.width for tower in self.towers)

    @property
    def rows(self) -> int:
        """Rows of the embedding and of the output layer."""
        return self.vocab + self.padding_rows

    @property
    def pad(self) -> int:
        """Id of the padding token."""
        return self.vocab

    @property
    def first_action(self) -> int:
        """Id of the first action token; the other bins follow."""
        return self.vocab - self.action_bins


_IMAGENET_MEAN = (0.485, 0.456, 0.406)
_IMAGENET_STD = (0.229, 0.224, 0.225)
_HALF = (0.5, 0.5, 0.5)

DINOV2 = TowerSize(
    width=1024,
    depth=24,
    heads=16,
    mlp=4096,
    timm_id="vit_large_patch14_reg4_dinov2.lvd142m",
    class_token=True,
    registers=4,
    layer_scale=True,
    mean=_IMAGENET_MEAN,
    std=_IMAGENET_STD,
)
SIGLIP = TowerSize(
    width=1152,
    depth=27,
    heads=16,
    mlp=4304,
    timm_id="vit_so400m_patch14_siglip_224",
    pooling=True,
    mean=_HALF,
    std=_HALF,
)

# 0.4 M parameters: learns from a few demonstrations on two CPU cores. It has both towers in
# miniature, with patches embedded by convolutions.
_TINY = PrismaticSize(
    towers=(
        replace(DINOV2, timm_id="", width=32, depth=2, heads=2, mlp=64, convs=3),
        replace(SIGLIP, timm_id="", width=64, depth=2, heads=2, mlp=128, convs=3),
    ),
    image_size=64,
    patch_size=8,
    width=80,
    mlp=160,
    depth=2,
    heads=4,
    kv_heads=4,
    vocab=640,
    padding_rows=16,
)

SIZES: dict[str, PrismaticSize] = {
    "tiny": _TINY,
    # The same, starting with sine-cosine positions.
    "tiny_sincos": replace(
        _TINY, towers=tuple(replace(tower, sincos=2.0) for tower in _TINY.towers)
    ),
    # 4.7 M, most of it embeddings: the published layout as small as possible, to compare with
    # reference numbers.
    "tiny_published": PrismaticSize(
        towers=(
            replace(DINOV2, timm_id="", width=48, depth=4, heads=4, mlp=192),
            replace(SIGLIP, timm_id="", width=64, depth=4, heads=4, mlp=239),
        ),
        image_size=224,
        patch_size=14,
        width=64,
        mlp=160,
        depth=3,
        heads=4,
        kv_heads=4,
        vocab=32000,
    ),
    # As published: 7.54 B.
    "openvla_7b": PrismaticSize(
        towers=(DINOV2, SIGLIP),
        image_size=224,
        patch_size=14,
        width=4096,
        mlp=11008,
        depth=32,
        heads=32,
        kv_heads=32,
        vocab=32000,
    ),
}

SIZE_HINT = f"check actor.model.size, which fixes the network's shape: {', '.join(SIZES)}"
"""Hint for a checkpoint of another network."""


def named_size(name: str) -> PrismaticSize:
    """Return the size called `name`.

    Raises:
        ConfigError: the name is unknown; the message lists the choices.
    """
    if name not in SIZES:
        raise ConfigError(
            f"actor.model.size must be one of {', '.join(SIZES)}; got {name!r}."
            f"{did_you_mean(name, SIZES)}"
        )
    return SIZES[name]
