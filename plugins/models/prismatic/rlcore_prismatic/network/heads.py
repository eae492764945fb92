"""The critic on the language model's output."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn


class ValueHead(nn.Module):
    """GELU MLP from a hidden state to values. Starts near 0: its last layer has no bias and is
    drawn from N(0, 0.02).

    Hidden layers are drawn with the gain of ReLU. The reference asks for GELU's, which torch does
    not have; nobody noticed, because its loader skips initialisation.

    Args:
        width: of the hidden state.
        hidden: widths of the hidden layers.
        outputs: V.
        elapsed: also read the elapsed fraction of the episode, as one more input in [-1, 1].
    """

    def __init__(
        self, width: int, hidden: Sequence[int], *, outputs: int = 1, elapsed: bool = False
    ) -> None:
        super().__init__()
        self.elapsed = elapsed
        layers: list[nn.Module] = []
        for inputs, units in pairwise([width + int(elapsed), *hidden]):
            linear = nn.Linear(inputs, units)
            nn.init.kaiming_normal_(linear.weight, mode="fan_out", nonlinearity="relu")
            nn.init.zeros_(linear.bias)
            layers += [linear, nn.GELU()]
        last = nn.Linear(hidden[-1], outputs, bias=False)
        nn.init.normal_(last.weight, std=0.02)
        self.mlp = nn.Sequential(*layers, last)

    def forward(self, features: Tensor, elapsed: Tensor) -> Tensor:
        """features fp32 `[B, width]`, elapsed `[B]` in [0, 1] -> values `[B, V]`."""
        if self.elapsed:
            features = torch.cat([features, 2 * elapsed[:, None].float() - 1], dim=-1)
        return self.mlp(features)
