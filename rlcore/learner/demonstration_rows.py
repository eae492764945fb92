"""Read demonstrations as rows of a replay: inputs, chunks, and n-step targets.

A row is a frame of a demonstration. Its chunk is what the expert did from there on, and the next
decision is the frame C steps later, if that frame was rendered. Demonstrations are successful ones
without rewards: the last step of each gets the reward of success and terminates the episode, all
other steps get reward 0.

Legend: M samples, B rows, C actions, H the policy's horizon, A entries.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from rlcore.contracts.errors import AlgorithmError
from rlcore.demonstrations.datasets import SupervisedSamples
from rlcore.learner import collectives

INPUTS = "inputs."
"""Prefix of the inputs' names among the arrays of n-step targets, and in a segment's file."""


@dataclass(frozen=True)
class DemonstrationRows:
    """Rows of demonstrations.

    Every rank has all samples; rank r of n trains on every n-th of them, from sample r on.

    Attributes:
        samples: one sample for each frame, in order.
        actions_per_chunk: C.
        reward: reward of success.
    """

    samples: SupervisedSamples
    actions_per_chunk: int
    reward: float = 1.0

    def __len__(self) -> int:
        return len(self.samples)

    @property
    def is_local(self) -> Tensor:
        """Return for each sample whether this rank trains on it: bool `[M]`."""
        return torch.arange(len(self)) % collectives.world_size() == collectives.rank()

    def inputs(self, rows: Tensor) -> dict[str, Tensor]:
        return {name: array.index_select(0, rows) for name, array in self.samples.inputs.items()}

    def actions(self, rows: Tensor) -> dict[str, Tensor]:
        """Return the expert's actions from the rows on: `actions` float32 `[B, C, A]`; past the end
        of the demonstration, the last one is repeated."""
        return {"actions": self.samples.actions[rows, : self.actions_per_chunk]}

    def targets(self, rows: Tensor, horizon: int) -> dict[str, Tensor]:
        return {"actions": self.samples.actions[rows], "mask": self.samples.mask[rows]}

    def n_step_targets(self, rows: Tensor, chunks: int, gamma: float) -> dict[str, Tensor]:
        """Return n-step targets: `rewards`, `discounts`, `valid`, `truncated`, `actions` and
        `inputs.NAME`; see :class:`rlcore.contracts.learning.NStepTargets`.

        A row is valid if its demonstration ends within the n chunks, or has a frame after them.
        """
        steps = chunks * self.actions_per_chunk
        order, steps_left = self._places
        ends = steps_left[rows] <= steps
        wanted = order[rows] + steps
        following = torch.searchsorted(order, wanted).clamp(max=len(self) - 1)
        continues = ~ends & (order[following] == wanted)
        of_success = self.reward * gamma ** (steps_left[rows] - 1).double()
        rewards = torch.where(ends, of_success, 0.0)
        discounts = torch.where(continues, gamma**steps, 0.0)
        after = torch.where(continues, following, rows)
        return {
            "rewards": rewards.float(),
            "discounts": discounts.float(),
            "valid": ends | continues,
            "truncated": torch.zeros_like(ends),
            **self.actions(after),
            **{f"{INPUTS}{name}": array for name, array in self.inputs(after).items()},
        }

    @property
    def number(self) -> Tensor:
        """Return the number of each sample's demonstration, int64 `[M]`.

        Raises:
            AlgorithmError: the samples do not say of which demonstration they are.
        """
        if self.samples.demonstration is None:
            raise AlgorithmError(
                "the algorithm asks which demonstrations samples are of, and they do not say it",
                hint="set SupervisedSamples.demonstration",
            )
        return self.samples.demonstration

    @cached_property
    def _places(self) -> tuple[Tensor, Tensor]:
        """Return for each sample its step's number, counted over all demonstrations, and the steps
        from it to the end of its demonstration: int64 `[M]` each.

        Raises:
            AlgorithmError: the samples do not say where in a demonstration they are.
        """
        number = self.samples.demonstration
        steps_left = self.samples.steps_left
        if number is None or steps_left is None:
            raise AlgorithmError(
                "the algorithm asks for n-step targets of demonstrations, whose samples do not say "
                "where they are",
                hint="set SupervisedSamples.demonstration and steps_left",
            )
        # as if every demonstration were as long as the longest: steps that differ stay different
        return (number + 1) * steps_left.max() - steps_left, steps_left
