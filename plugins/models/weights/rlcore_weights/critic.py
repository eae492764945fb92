"""Define the critic of a policy: an MLP from features of the network to values."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor, nn


class ValueHead(nn.Module):
    """An MLP from features to values.

    The last layer's weights are drawn with std 0.02, so that initial values are near 0.

    Args:
        width: of the features.
        hidden: widths of the hidden layers.
        outputs: V, values per decision.
        elapsed: also read the elapsed fraction of the episode, as one more input in [-1, 1].

    Attributes:
        activation: class of the activation after each hidden layer.
        mode: fan by which hidden layers are initialised (:func:`torch.nn.init.kaiming_normal_`).
        last_bias: whether the last layer has a bias.
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
        """Map features fp32 `[B, width]` and elapsed `[B]` in [0, 1] to values `[B, V]`."""
        if self.elapsed:
            assert elapsed is not None, "this critic reads the elapsed fraction of the episode"
            features = torch.cat([features, 2 * elapsed[:, None].float() - 1], dim=-1)
        return self.mlp(features)


def parameter_groups(policy: nn.Module, critic: nn.Module | None) -> dict[str, list[nn.Parameter]]:
    """Return the parameters to train: the critic's as "value", all other trainable as "policy"."""
    value = [] if critic is None else list(critic.parameters())
    of_critic = {id(parameter) for parameter in value}
    others = [p for p in policy.parameters() if p.requires_grad and id(p) not in of_critic]
    return {"policy": others, "value": value}
