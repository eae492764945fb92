"""The critic on the language model's output."""

from __future__ import annotations

from rlcore_weights import critic
from torch import nn


class ValueHead(critic.ValueHead):
    """GELU MLP from a hidden state to values, its last layer without a bias.

    Hidden layers are drawn with the gain of ReLU. The reference asks for GELU's, which torch does
    not have; nobody noticed, because its loader skips initialisation.
    """

    activation = nn.GELU
    mode = "fan_out"
    last_bias = False
