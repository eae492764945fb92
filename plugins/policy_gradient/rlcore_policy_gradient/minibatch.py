"""Define the inputs of a loss besides the policy: stored samples of one minibatch.

Legend: B samples, C actions a sample, A entries of an action, V values, D = 1 or C.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class Weights:
    """Weights of the three kinds of elements; tensors share their leading axes.

    Attributes:
        policy: `[..., E, F]` at logprob_type.
        entropy: `[..., E, F]` at entropy_type.
        value: `[..., V]`, at the granularity of the values (V may be 0).
    """

    policy: Tensor
    entropy: Tensor
    value: Tensor

    def flat(self) -> Weights:
        """`[T, N, ...]` -> `[T * N, ...]`."""
        return self.each(lambda part: part.flatten(0, 1))

    def __getitem__(self, index: Tensor) -> Weights:
        return self.each(lambda part: part[index])

    def scaled(self, policy: float, entropy: float, value: float) -> Weights:
        return Weights(self.policy * policy, self.entropy * entropy, self.value * value)

    def sums(self) -> tuple[float, ...]:
        """Sum of each kind, in float64: (policy, entropy, value)."""
        return tuple(float(part.double().sum()) for part in vars(self).values())

    def as_whole_batch(self, totals: tuple[float, ...]) -> Weights:
        """Scale this part of a batch so that its loss estimates that of the whole batch.

        Means stay means: where the weights of the batch add up to 1, those of the result do. A
        sum per episode (seq-mean-token-sum) stays a sum: the part stands for its share.

        Args:
            totals: :meth:`sums` of the whole batch.
        """
        factors = [
            whole / part if part > 0 else 0.0
            for whole, part in zip(totals, self.sums(), strict=True)
        ]
        return self.scaled(*factors)

    def to(self, device: torch.device) -> Weights:
        return self.each(lambda part: part.to(device))

    def each(self, change: Callable[[Tensor], Tensor]) -> Weights:
        return Weights(change(self.policy), change(self.entropy), change(self.value))


@dataclass
class Minibatch:
    """B decisions: the policy's outputs when it acted, and their results.

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
        return self._each(lambda part: part[places])

    def blank(self) -> Minibatch:
        """The same samples, none of which counts: a loss of them has gradients, which are zero."""
        weights = self.weights.each(torch.zeros_like)
        return replace(self, valid=torch.zeros_like(self.valid), weights=weights)

    def to(self, device: torch.device) -> Minibatch:
        """The same on a device."""
        return self._each(lambda part: part.to(device))

    def _each(self, change: Callable[[Any], Any]) -> Minibatch:
        mine = {field.name: getattr(self, field.name) for field in fields(Minibatch)}
        made: dict[str, Any] = {n: x if x is None else change(x) for n, x in mine.items()}
        return Minibatch(**made)


@dataclass
class Advantages:
    """The weights of the policy loss.

    Attributes:
        advantages: float32 `[T, N, D]`, 0 where invalid.
        returns: float32 `[T, N, V]`, targets of the values (V = 0 without a critic).
        valid: bool `[T, N, C]`, executed actions that are trained on.
    """

    advantages: Tensor
    returns: Tensor
    valid: Tensor
