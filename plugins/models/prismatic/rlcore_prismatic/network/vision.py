"""Compute patch features from pixels with DINOv2 and SigLIP, under timm's module names.

Features are the output of the second-to-last block, without the final norm and without the tokens
before the patches. GELU is exact in both towers, norms have an epsilon of 1e-6. With FiLM the
sentence scales and shifts the features of each block between attention and MLP.

Legend: N images, T patches, W width of a tower, D width of the Llama.
"""

from __future__ import annotations

import math
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from rlcore_prismatic.layout import conv_channels
from rlcore_prismatic.sizes import PrismaticSize, TowerSize

NORM_EPS = 1e-6


class Attention(nn.Module):
    """Self-attention with one projection for queries, keys and values."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Attend among the tokens of each image: `[N, T, W]` -> `[N, T, W]`."""
        # [N, T, 3 W] -> three of [N, heads, T, W / heads]
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        return self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class MLP(nn.Module):
    """An MLP with one hidden layer: y = fc2(gelu(fc1(x)))."""

    def __init__(self, inputs: int, hidden: int, outputs: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(inputs, hidden)
        self.fc2 = nn.Linear(hidden, outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Map `[..., inputs]` to `[..., outputs]`."""
        return self.fc2(F.gelu(self.fc1(x)))


class LayerScale(nn.Module):
    """A learnt factor per feature."""

    def __init__(self, width: int) -> None:
        super().__init__()
        # timm starts from 1e-5, for towers of 24 blocks; a tower trained from scratch has few
        self.scale_factor = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.scale_factor


class Block(nn.Module):
    """A transformer block: x + ls1(attn(norm1(x))), then x + ls2(mlp(norm2(x)))."""

    def __init__(self, size: TowerSize) -> None:
        super().__init__()
        width = size.width
        self.norm1 = nn.LayerNorm(width, eps=NORM_EPS)
        self.attn = Attention(width, size.heads)
        self.ls1 = LayerScale(width) if size.layer_scale else nn.Identity()
        self.norm2 = nn.LayerNorm(width, eps=NORM_EPS)
        self.mlp = MLP(width, size.mlp, width)
        self.ls2 = LayerScale(width) if size.layer_scale else nn.Identity()

    def attend(self, x: Tensor) -> Tensor:
        """Compute the attention branch with its residual sum."""
        return x + self.ls1(self.attn(self.norm1(x)))

    def feed(self, x: Tensor) -> Tensor:
        """Compute the MLP branch with its residual sum."""
        return x + self.ls2(self.mlp(self.norm2(x)))

    def forward(self, x: Tensor, sentence: Tensor | None) -> Tensor:
        """Map `[N, T, W]` to `[N, T, W]`; the sentence is ignored."""
        return self.feed(self.attend(x))


class FilmBlock(nn.Module):
    """A block with FiLM (Perez et al. 2018, in OpenVLA-OFT's form).

    Between attention and MLP the sentence l modulates the features: x (1 + scale(l)) + shift(l).
    FiLM starts without an effect, because scale and shift are zero.
    """

    def __init__(self, size: TowerSize, sentence_width: int) -> None:
        super().__init__()
        self.block = Block(size)
        self.scale = nn.Linear(sentence_width, size.width)
        self.shift = nn.Linear(sentence_width, size.width)
        for layer in (self.scale, self.shift):
            nn.init.zeros_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor, sentence: Tensor | None) -> Tensor:
        """Map x `[N, T, W]` and sentence `[N, D]` to `[N, T, W]`."""
        scale = self.scale(sentence)[:, None]
        shift = self.shift(sentence)[:, None]
        return self.block.feed(self.block.attend(x) * (1 + scale) + shift)


class PatchEmbed(nn.Module):
    """A linear map of each patch."""

    def __init__(self, size: PrismaticSize, tower: TowerSize) -> None:
        super().__init__()
        self.proj = nn.Conv2d(3, tower.width, kernel_size=size.patch_size, stride=size.patch_size)

    def forward(self, images: Tensor) -> Tensor:
        """Embed images `[N, 3, h, w]` as patches `[N, T, W]`."""
        return self.proj(images).flatten(2).transpose(1, 2)


class ConvPatchEmbed(nn.Module):
    """Convolutions of stride 2 with ReLU between them."""

    def __init__(self, tower: TowerSize) -> None:
        super().__init__()
        self.convs = nn.ModuleList(
            nn.Conv2d(a, b, kernel_size=3, stride=2, padding=1)
            for a, b in pairwise(conv_channels(tower))
        )

    def forward(self, images: Tensor) -> Tensor:
        """Embed images `[N, 3, h, w]` as patches `[N, T, W]`."""
        x = images
        for number, conv in enumerate(self.convs):
            x = conv(F.relu(x) if number else x)
        return x.flatten(2).transpose(1, 2)


def sincos_positions(patches: int, width: int) -> Tensor:
    """Return sines and cosines of the patches' positions, `[T, W]`.

    A quarter of the width each is sin(x), cos(x), sin(y) and cos(y), at frequencies of 1/8, 2/8...
    turns per side of the image. If the width is no multiple of four, the remaining entries are 0.
    """
    side = math.isqrt(patches)
    frequencies = width // 4
    along = torch.linspace(0, 1, side)
    turns = torch.arange(1, frequencies + 1) * (2 * math.pi / 8)
    down, across = torch.meshgrid(along, along, indexing="ij")
    waves = [
        wave(place.reshape(-1, 1) * turns)
        for place in (across, down)
        for wave in (torch.sin, torch.cos)
    ]
    return F.pad(torch.cat(waves, dim=1), (0, width - 4 * frequencies))


class AttentionPool(nn.Module):
    """SigLIP's pooling head. Checkpoints have its weights; nothing here uses it."""

    def __init__(self, tower: TowerSize) -> None:
        super().__init__()
        width = tower.width
        self.latent = nn.Parameter(torch.zeros(1, 1, width))
        self.q = nn.Linear(width, width)
        self.kv = nn.Linear(width, 2 * width)
        self.proj = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width, eps=NORM_EPS)
        self.mlp = MLP(width, tower.mlp, width)


class VisionTransformer(nn.Module):
    """One vision tower.

    Args:
        size: of the network, for the images.
        tower: size of the tower.
        film: whether the sentence modulates the blocks.
    """

    def __init__(self, size: PrismaticSize, tower: TowerSize, *, film: bool) -> None:
        super().__init__()
        width = tower.width
        self.prefix = tower.prefix
        self.checkpointing = False
        if tower.class_token:
            self.cls_token = nn.Parameter(torch.randn(1, 1, width) * 1e-6)
        if tower.registers:
            self.reg_token = nn.Parameter(torch.randn(1, tower.registers, width) * 1e-6)
        self.has = (tower.class_token, bool(tower.registers))
        positions = torch.randn(1, size.patches, width) * 0.02
        if tower.sincos:
            positions += tower.sincos * sincos_positions(size.patches, width)
        self.pos_embed = nn.Parameter(positions)
        self.patch_embed = ConvPatchEmbed(tower) if tower.convs else PatchEmbed(size, tower)
        self.blocks = nn.ModuleList(
            FilmBlock(tower, size.width) if film else Block(tower) for _ in range(tower.depth)
        )
        self.norm = nn.LayerNorm(width, eps=NORM_EPS)
        if tower.pooling:
            self.attn_pool = AttentionPool(tower)

    def forward(self, images: Tensor, sentence: Tensor | None = None) -> Tensor:
        """Encode normalised images `[N, 3, h, w]` (and sentences `[N, D]`) as `[N, T, W]`."""
        x = self.patch_embed(images) + self.pos_embed
        class_token, registers = self.has
        front = [self.cls_token] if class_token else []
        front += [self.reg_token] if registers else []
        x = torch.cat([*(token.expand(len(x), -1, -1) for token in front), x], dim=1)
        for block in self.blocks[:-1]:
            if self.checkpointing and torch.is_grad_enabled():
                x = checkpoint(block, x, sentence, use_reentrant=False)
            else:
                x = block(x, sentence)
        return x[:, self.prefix :]


class VisionBackbone(nn.Module):
    """One or two towers, whose features are concatenated.

    Args:
        size: of the network.
        film: whether the sentence modulates them.
    """

    def __init__(self, size: PrismaticSize, *, film: bool = False) -> None:
        super().__init__()
        first, *second = size.towers
        self.featurizer = VisionTransformer(size, first, film=film)
        if second:
            self.fused_featurizer = VisionTransformer(size, second[0], film=film)
        self.two = bool(second)

    @property
    def towers(self) -> list[VisionTransformer]:
        """The towers, in the order of their channels."""
        return [self.featurizer, self.fused_featurizer] if self.two else [self.featurizer]

    def forward(self, pixels: Tensor, sentence: Tensor | None = None) -> Tensor:
        """Compute patch features `[B, I T, vision width]`, image after image.

        Args:
            pixels: `[B, I, C, h, w]`, three channels for each tower, one tower after the other.
            sentence: `[B, D]`, for FiLM.
        """
        images = pixels.shape[1]
        if sentence is not None:
            sentence = sentence.repeat_interleave(images, dim=0)
        channels = pixels.flatten(0, 1).split(3, dim=1)
        features = [
            tower(image, sentence) for tower, image in zip(self.towers, channels, strict=True)
        ]
        return torch.cat(features, dim=-1).unflatten(0, (-1, images)).flatten(1, 2)


class FilmVisionBackbone(nn.Module):
    """The towers with FiLM; names are one level deeper, as in OpenVLA-OFT's wrapper."""

    def __init__(self, size: PrismaticSize) -> None:
        super().__init__()
        self.vision_backbone = VisionBackbone(size, film=True)

    @property
    def towers(self) -> list[VisionTransformer]:
        """The towers, in the order of their channels."""
        return self.vision_backbone.towers

    def forward(self, pixels: Tensor, sentence: Tensor | None = None) -> Tensor:
        """See :meth:`VisionBackbone.forward`."""
        return self.vision_backbone(pixels, sentence)
