"""Define what the critic reads, and the head that learns the exploration noise (flow_noise).

Both heads take fp32 features and are independent of the network that computes them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn

from rlcore_flow.head_shapes import NOISE_HIDDEN


@dataclass(frozen=True)
class CriticConfig:
    """Settings of the critic: its input and its sizes.

    Attributes:
        after_vlm: the VLM's output instead of the action expert's.
        vlm_mode: tokens of the VLM's output: "mean_token" (image tokens of `num_images` cameras and
            all prompt tokens, including padding, as in the reference), "last_token", "first_token".
        num_images: cameras whose tokens are in the mean.
        detach_input: the value loss trains only the critic. No effect with after_vlm, as in the
            reference.
        elapsed: also read the elapsed fraction of the episode. With sparse rewards the value of a
            state depends on the time left.
        hidden: widths of the hidden layers; those of published π0.5 for ManiSkill, LIBERO and
            DROID are (1024, 512, 256).
        outputs: V, values per decision.
    """

    after_vlm: bool = False
    vlm_mode: str = "mean_token"
    num_images: int = 1
    detach_input: bool = False
    elapsed: bool = False
    hidden: tuple[int, ...] = (512, 256, 128)
    outputs: int = 1


class NoiseHead(nn.Module):
    """Learns the std of the exploration noise per action entry (flow_noise).

    log var = lo + (hi - lo) (tanh(MLP(features)) + 1) / 2;  std = exp(log var / 2)

    Args:
        width: of the expert's features.
        action_dim: D.
        std_range: minimum and maximum std; lo and hi are the logarithms of their squares.
        hidden: widths of the hidden layers (tanh).
    """

    def __init__(
        self,
        width: int,
        action_dim: int,
        std_range: Sequence[float] = (0.08, 0.16),
        hidden: Sequence[int] = NOISE_HIDDEN,
    ) -> None:
        super().__init__()
        self.low, self.high = (math.log(std**2) for std in std_range)
        layers: list[nn.Module] = []
        for inputs, units in pairwise([width, *hidden]):
            layers += [nn.Linear(inputs, units), nn.Tanh()]
        self.mlp = nn.Sequential(*layers, nn.Linear(hidden[-1], action_dim))

    def forward(self, features: Tensor) -> Tensor:
        """Map features fp32 `[B, H, width]` to std `[B, H, D]`."""
        share = (torch.tanh(self.mlp(features)) + 1) / 2
        return torch.exp(0.5 * (self.low + (self.high - self.low) * share))


def vlm_features(output: Tensor, config: CriticConfig, image_tokens: int, prompt: int) -> Tensor:
    """Return the input of a critic on the VLM's output: fp32 `[B, VLM width]`.

    Args:
        output: `[B, P, VLM width]`, tokens of the cameras, then of the prompt.
        config: which tokens are read.
        image_tokens: number of tokens of one camera.
        prompt: L, prompt tokens including padding.
    """
    if config.vlm_mode == "first_token":
        return output[:, 0].float()
    if config.vlm_mode == "last_token":
        return output[:, -1].float()
    images = output[:, : config.num_images * image_tokens]
    return torch.cat([images, output[:, -prompt:]], dim=1).mean(dim=1).float()


def expert_features(features: Tensor, config: CriticConfig) -> Tensor:
    """Return the input of a critic on the expert: the mean over action tokens, `[B, E]`.

    Args:
        features: `[B, H, E]`, the expert's output at the action tokens.
        config: `detach_input` detaches the result.
    """
    pooled = features.mean(dim=1)
    return pooled.detach() if config.detach_input else pooled
