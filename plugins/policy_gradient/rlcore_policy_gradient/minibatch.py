"""Define the stored samples of a minibatch, the input of a loss besides the policy's evaluation.

Legend: B samples, C actions per sample, A entries per action, V values, D = 1 or C.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class Weights:
    """Weights of the elements of the three losses; the tensors share their leading axes.

    Attributes:
        policy: `[..., E, F]`, weights of the policy loss, at the granularity logprob_type.
        entropy: `[..., E, F]`, weights of the entropy, at the granularity entropy_type.
        value: `[..., V]`, weights of the value loss (V may be 0).
    """

    policy: Tensor
    entropy: Tensor
    value: Tensor

    def flat(self) -> Weights:
        """Flatten the leading axes: `[T, N, ...]` -> `[T * N, ...]`."""
        return self.map(lambda part: part.flatten(0, 1))

    def __getitem__(self, index: Tensor) -> Weights:
        return self.map(lambda part: part[index])

    def scaled(self, policy: float, entropy: float, value: float) -> Weights:
        """Multiply each tensor by its factor."""
        return Weights(self.policy * policy, self.entropy * entropy, self.value * value)

    def sums(self) -> tuple[float, ...]:
        """Return the sum of each tensor, computed in float64: (policy, entropy, value)."""
        return tuple(float(part.double().sum()) for part in vars(self).values())

    def as_whole_batch(self, totals: tuple[float, ...]) -> Weights:
        """Scale the weights of a minibatch to the sums of the whole batch.

        The loss of the minibatch then estimates the loss of the whole batch: if the weights of the
        batch add up to 1 (a mean), those of the result do too, and a sum per episode
        (seq-mean-token-sum) keeps the scale of a sum.

        Args:
            totals: :meth:`sums` of the whole batch.
        """
        factors = [
            whole / part if part > 0 else 0.0
            for whole, part in zip(totals, self.sums(), strict=True)
        ]
        return self.scaled(*factors)

    def with_policy(self, factors: Tensor) -> Weights:
        """Multiply the weights of the policy loss by factors of their shape."""
        return replace(self, policy=self.policy * factors)

    def to(self, device: torch.device) -> Weights:
        return self.map(lambda part: part.to(device))

    def map(self, change: Callable[[Tensor], Tensor]) -> Weights:
        """Apply `change` to the three tensors."""
        return Weights(change(self.policy), change(self.entropy), change(self.value))


@dataclass
class Minibatch:
    """B decisions: the outputs of the policy that acted, advantages and value targets.

    Attributes:
        old_logprobs: float32 `[B, C, A]`, elementwise log-probs of the policy that acted.
        old_values: float32 `[B, V]`, values of the policy that acted.
        reference_logprobs: float32 `[B, C, A]` under the reference weights; None if the
            algorithm does not need them.
        advantages: float32 `[B, D]`.
        returns: float32 `[B, V]`, the targets of the values; `[B, 0]` without a critic.
        valid: bool `[B, C]`: executed actions that are trained on. Log-probs of other actions may
            have any value, NaN included.
        weights: weights of the elements, computed for the whole minibatch, so that the losses of
            its micro-batches add up to its loss.
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
        """Select samples by indices int64 `[P]` or by a bool mask `[B]`."""
        return self._map(lambda part: part[places])

    def blank(self) -> Minibatch:
        """Return the same samples, marked invalid and with weights 0.

        Their loss still has gradients, all zero: a rank without samples can run backward on it.
        """
        weights = self.weights.map(torch.zeros_like)
        return replace(self, valid=torch.zeros_like(self.valid), weights=weights)

    def to(self, device: torch.device) -> Minibatch:
        """Copy the tensors to a device."""
        return self._map(lambda part: part.to(device))

    def _map(self, change: Callable[[Any], Any]) -> Minibatch:
        """Apply `change` to every tensor of a minibatch, and to its weights."""
        changed: dict[str, Any] = {}
        for field in fields(Minibatch):
            part = getattr(self, field.name)
            changed[field.name] = None if part is None else change(part)
        return Minibatch(**changed)


@dataclass
class Advantages:
    """Advantages and value targets of a batch: T chunks, N columns.

    Attributes:
        advantages: float32 `[T, N, D]`, 0 where invalid.
        returns: float32 `[T, N, V]`, targets of the values (V = 0 without a critic).
        valid: bool `[T, N, C]`, executed actions that are trained on.
    """

    advantages: Tensor
    returns: Tensor
    valid: Tensor
