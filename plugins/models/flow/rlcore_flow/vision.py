"""Encode pixels as image tokens: SigLIP, as published, or convolutions for tiny networks."""

from __future__ import annotations

from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from rlcore_flow.sizes import TowerSize, conv_channels, patches


class SiglipTower(nn.Module):
    """SigLIP of transformers, without its pooling head.

    Its parts are called one by one, because in bf16 the embeddings must remain fp32, as in openpi.
    SigLIP's own forward does not support that.
    """

    def __init__(self, size: TowerSize) -> None:
        super().__init__()
        # takes seconds to import, and the other tower does not need it
        from transformers.models.siglip.configuration_siglip import SiglipVisionConfig
        from transformers.models.siglip.modeling_siglip import SiglipVisionModel

        self.checkpointing = False
        config = SiglipVisionConfig(
            hidden_size=size.vision_width,
            intermediate_size=size.vision_mlp,
            num_hidden_layers=size.vision_depth,
            num_attention_heads=size.vision_heads,
            image_size=size.image_size,
            patch_size=size.patch_size,
            vision_use_head=False,
        )
        self.vision_model = SiglipVisionModel(config)

    @property
    def blocks(self) -> list[nn.Module]:
        """The transformer layers."""
        return list(self.vision_model.encoder.layers)

    def fill_buffers(self) -> None:
        """Fill `position_ids`, the tower's only buffer, which no file holds.

        A tower that was built on the meta device lacks it.
        """
        embeddings = self.vision_model.embeddings
        numbers = torch.arange(embeddings.position_embedding.num_embeddings)[None]
        embeddings.register_buffer("position_ids", numbers, persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        """Encode images float `[N, 3, h, w]` in [-1, 1] as tokens `[N, T, width]`."""
        model = self.vision_model
        patches = model.embeddings.patch_embedding(images).flatten(2).transpose(1, 2)
        x = patches + model.embeddings.position_embedding.weight
        x = x.to(model.post_layernorm.weight.dtype)
        for layer in model.encoder.layers:
            if self.checkpointing and torch.is_grad_enabled():
                x = checkpoint(layer, x, None, use_reentrant=False)
            else:
                x = layer(x, None)
        return model.post_layernorm(x)


class ConvTower(nn.Module):
    """Convolutions of stride 2, learnt positions, and a norm: cheap to train from scratch."""

    def __init__(self, size: TowerSize) -> None:
        super().__init__()
        channels = conv_channels(size)
        self.convs = nn.ModuleList(
            nn.Conv2d(inputs, outputs, kernel_size=3, stride=2, padding=1)
            for inputs, outputs in pairwise(channels)
        )
        self.position_embedding = nn.Embedding(patches(size), size.vision_width)
        nn.init.normal_(self.position_embedding.weight, std=0.02)
        self.norm = nn.LayerNorm(size.vision_width)

    @property
    def blocks(self) -> list[nn.Module]:
        """The transformer layers: this tower has none."""
        return []

    def forward(self, images: Tensor) -> Tensor:
        """Encode images float `[N, 3, h, w]` in [-1, 1] as tokens `[N, T, width]`."""
        x = images.to(self.norm.weight.dtype)
        for conv in self.convs:
            x = F.relu(conv(x), inplace=True)
        x = x.flatten(2).transpose(1, 2)
        return self.norm(x + self.position_embedding.weight.to(x.dtype))
