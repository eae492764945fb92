"""Episode ids: one integer determines every choice of an episode.

The id is a mixed-radix number with one digit per factor (object, table, place...), most significant
first, in the order in which RL4VLA numbers its configurations. So an id is the same start on any
device and in any row, and two ids that differ in one digit differ in one factor only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch

from rlcore.contracts.errors import ConfigError
from rlcore.contracts.rng import generator

# Ranges of [0, 1) by split. A value of the divided factor belongs to the split whose range contains
# its random number.
SPLITS = {"heldout": (0.0, 0.2), "validation": (0.2, 0.3), "train": (0.3, 1.0)}


@dataclass(frozen=True)
class Factor:
    """A factor that varies between episodes: `size` consecutive integers from `first` on."""

    name: str
    size: int
    first: int = 0


@dataclass(frozen=True)
class Episodes:
    """All episodes of a task: the product of its factors, most significant first.

    Args:
        factors: the factors that vary between episodes.
        divided: name of the factor whose values are divided among the splits; None: all splits
            have the same episodes.
    """

    factors: tuple[Factor, ...]
    divided: str | None = None

    @property
    def total(self) -> int:
        """Number of different episodes."""
        return math.prod(factor.size for factor in self.factors)

    def choices(self, ids: torch.Tensor) -> dict[str, torch.Tensor]:
        """Return values int64 `[B]` of each factor for ids int64 `[B]`, taken modulo `total`."""
        rest = ids % self.total
        chosen = {}
        for factor in reversed(self.factors):
            chosen[factor.name] = rest % factor.size + factor.first
            rest = rest // factor.size
        return chosen

    def id_of(self, **choices: int) -> int:
        """Return the id of the episode with these values; an omitted factor has its lowest value.

        Raises:
            ConfigError: there is no such factor, or a value is out of range.
        """
        unknown = choices.keys() - {factor.name for factor in self.factors}
        if unknown:
            names = ", ".join(factor.name for factor in self.factors)
            raise ConfigError(
                f"episodes of this task have no {', '.join(sorted(unknown))}, they have {names}"
            )
        number = 0
        for factor in self.factors:
            digit = choices.get(factor.name, factor.first) - factor.first
            if not 0 <= digit < factor.size:
                last = factor.first + factor.size - 1
                raise ConfigError(
                    f"{factor.name} must be {factor.first} to {last}, got {choices[factor.name]}"
                )
            number = number * factor.size + digit
        return number

    def held(self, values: Mapping[str, int]) -> Episodes:
        """Return the subset of episodes in which these factors have these values.

        Raises:
            ConfigError: there is no such factor, or a value is out of range.
        """
        self.id_of(**values)
        return Episodes(
            tuple(
                Factor(factor.name, 1, values[factor.name]) if factor.name in values else factor
                for factor in self.factors
            ),
            divided=self.divided,
        )

    def id_of_trial(self, trial: int, *, split: str) -> int:
        """Return the id of a trial, which is sampled from all episodes of its split.

        Each factor has its own random stream, keyed by its name and the trial. So trial k has the
        same object in two variants with the same objects, and variants are compared on paired
        episodes.
        """
        draws = {}
        for factor in self.factors:
            values = self._values(factor, split)
            chosen = generator("put_on_plate", factor.name, trial).integers(len(values))
            draws[factor.name] = int(values[chosen])
        return self.id_of(**draws)

    def _values(self, factor: Factor, split: str) -> np.ndarray:
        """Return the values of a factor that occur in a split.

        The split of a value does not depend on the number of values. If there is only one value, it
        is in all splits.
        """
        last = factor.first + factor.size
        values = np.arange(factor.first, last)
        if factor.name != self.divided or factor.size == 1:
            return values
        draws = generator("put_on_plate", "held out", factor.name).random(last)[factor.first :]
        first, end = SPLITS[split]
        return values[(first <= draws) & (draws < end)]
