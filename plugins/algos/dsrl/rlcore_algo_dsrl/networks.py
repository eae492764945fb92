"""The noise actor: a tanh-Gaussian over features of what the policy sees.

Legend: B rows, F features, N entries that are decided, R rows of noise, H the policy's horizon.
"""

from __future__ import annotations

import math

import torch
from rlcore_off_policy.critic import layers
from torch import Tensor, nn
from torch.nn import functional

UNTRAINED, SEEN, LEARNED = 0.0, 1.0, 2.0
"""What has been done with it: nothing; a rollout was learned from, or was too short to be; it has
made steps, and decides."""
_LOG_STD = (-5.0, 2.0)


class NoiseActor(nn.Module):
    """Noise within +- bound.

    Args:
        features: F.
        rows: R; the last one is repeated up to the horizon.
        shape: of the policy's noise, H first.
        bound: b.
        hidden: widths of its layers.
    """

    stage: Tensor

    def __init__(
        self,
        features: int,
        rows: int,
        shape: tuple[int, ...],
        *,
        bound: float,
        hidden: tuple[int, ...],
    ) -> None:
        super().__init__()
        self.rows, self._shape, self._bound = rows, shape, bound
        self.entries = rows * math.prod(shape[1:])
        self.layers = layers(features, hidden, 2 * self.entries)
        self.register_buffer("stage", torch.full((1,), UNTRAINED))

    def mean(self, features: Tensor) -> Tensor:
        """The noise `[B, N]` at the middle of the Gaussian."""
        middle: Tensor = self.layers(features)[:, : self.entries]
        return self._bound * middle.tanh()

    def sample(self, features: Tensor, normal: Tensor) -> tuple[Tensor, Tensor]:
        """Noise `[B, N]` and its log-density `[B]`, both with gradients.

        Args:
            normal: `[B, N]`, drawn from a standard normal.
        """
        middle, log_std = self.layers(features).chunk(2, dim=1)
        log_std = log_std.clamp(*_LOG_STD)
        flat = middle + log_std.exp() * normal
        gaussian = -0.5 * normal.square() - log_std - 0.5 * math.log(2 * math.pi)
        # log(1 - tanh(x)^2), exact also where tanh rounds to 1
        slope = 2 * (math.log(2.0) - flat - functional.softplus(-2 * flat))
        density = gaussian - slope - math.log(self._bound)
        return self._bound * flat.tanh(), density.sum(1)

    def unrolled(self, noise: Tensor) -> Tensor:
        """As the policy takes it, `[B, *shape]`, of `[B, N]`."""
        rows = noise.unflatten(1, (self.rows, *self._shape[1:]))
        missing = self._shape[0] - self.rows
        return torch.cat([rows, rows[:, -1:].expand(-1, missing, *self._shape[1:])], dim=1)

    def decided(self, noise: Tensor) -> tuple[Tensor, Tensor]:
        """The entries `[B, N]` of noise `[B, *shape]` that would be decided, and whether the rest
        is as :meth:`unrolled` makes it, bool `[B]`."""
        own = noise[:, : self.rows].flatten(1)
        return own, (self.unrolled(own) == noise).flatten(1).all(1)


class Temperature(nn.Module):
    """The learned weight of the entropy: exp of a number."""

    def __init__(self, alpha: float) -> None:
        super().__init__()
        self.log = nn.Parameter(torch.tensor([math.log(alpha)]))
