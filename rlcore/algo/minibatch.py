"""What a loss is made of besides the policy: samples of one minibatch, as they were stored.

Legend: B samples, C actions a sample, A entries of an action, V values, D = 1 or C.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from rlcore.algo.reduce import Weights


@dataclass
class Minibatch:
    """B decisions: what the policy said of them when it acted, and what became of them.

    Attributes:
        old_logprobs: float32 `[B, C, A]`, elementwise, of the policy that acted.
        old_values: float32 `[B, V]`, its values.
        reference_logprobs: float32 `[B, C, A]` under the reference weights; None where the
            algorithm does not need them.
        advantages: float32 `[B, D]`.
        returns: float32 `[B, V]`, the targets of the values; `[B, 0]` without a critic.
        valid: bool `[B, C]`: executed actions that are trained on. Log-probs of others may be
            anything, NaN included.
        weights: of the elements; made for the minibatch as a whole, so that the losses of its
            parts add up.
    """

    old_logprobs: Tensor
    old_values: Tensor
    reference_logprobs: Tensor | None
    advantages: Tensor
    returns: Tensor
    valid: Tensor
    weights: Weights

    def __len__(self) -> int:
        return len(self.valid)

    def __getitem__(self, places: Tensor) -> Minibatch:
        """The samples at these places: int64 `[P]`, or a bool mask `[B]`."""
        reference = self.reference_logprobs
        return Minibatch(
            old_logprobs=self.old_logprobs[places],
            old_values=self.old_values[places],
            reference_logprobs=None if reference is None else reference[places],
            advantages=self.advantages[places],
            returns=self.returns[places],
            valid=self.valid[places],
            weights=self.weights[places],
        )

    def blank(self) -> Minibatch:
        """The same samples, none of which counts: a loss of them has gradients, which are zero."""
        zero = {name: torch.zeros_like(one) for name, one in vars(self.weights).items()}
        return replace(self, valid=torch.zeros_like(self.valid), weights=Weights(**zero))

    def to(self, device: torch.device) -> Minibatch:
        """The same on a device."""
        reference = self.reference_logprobs
        return Minibatch(
            old_logprobs=self.old_logprobs.to(device),
            old_values=self.old_values.to(device),
            reference_logprobs=None if reference is None else reference.to(device),
            advantages=self.advantages.to(device),
            returns=self.returns.to(device),
            valid=self.valid.to(device),
            weights=self.weights.to(device),
        )
