"""The critic of a policy: an MLP from features of its network to values."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor, nn


class ValueHead(nn.Module):
    """MLP from features to values. Starts near 0: the last layer is drawn from N(0, 0.02).

    Args:
        width: of the features.
        hidden: widths of the hidden layers.
        outputs: V.
        elapsed: also read the elapsed fraction of the episode, as one more input in [-1, 1].

    Attributes:
        activation: follows each hidden layer.
        mode: by which width hidden layers are drawn, see :func:`torch.nn.init.kaiming_normal_`.
        last_bias: whether the last layer has one.
    """

    activation: type[nn.Module] = nn.ReLU
    mode: Literal["fan_in", "fan_out"] = "fan_in"
    last_bias = True

    def __init__(
        self, width: int, hidden: Sequence[int], *, outputs: int = 1, elapsed: bool = False
    ) -> None:
        super().__init__()
        self.elapsed = elapsed
        layers: list[nn.Module] = []
        for inputs, units in pairwise([width + int(elapsed), *hidden]):
            linear = nn.Linear(inputs, units)
            nn.init.kaiming_normal_(linear.weight, mode=self.mode, nonlinearity="relu")
            nn.init.zeros_(linear.bias)
            layers += [linear, self.activation()]
        last = nn.Linear(hidden[-1], outputs, bias=self.last_bias)
        nn.init.normal_(last.weight, std=0.02)
        if self.last_bias:
            nn.init.zeros_(last.bias)
        self.mlp = nn.Sequential(*layers, last)

    def forward(self, features: Tensor, elapsed: Tensor | None = None) -> Tensor:
        """features fp32 `[B, width]`, elapsed `[B]` in [0, 1] -> values `[B, V]`."""
        if self.elapsed:
            assert elapsed is not None, "this critic reads the elapsed fraction of the episode"
            features = torch.cat([features, 2 * elapsed[:, None].float() - 1], dim=-1)
        return self.mlp(features)


def parameter_groups(policy: nn.Module, critic: nn.Module | None) -> dict[str, list[nn.Parameter]]:
    """Trainable parameters of a policy: its critic's, and all others."""
    value = [] if critic is None else list(critic.parameters())
    of_critic = {id(parameter) for parameter in value}
    others = [p for p in policy.parameters() if p.requires_grad and id(p) not in of_critic]
    return {"policy": others, "value": value}
