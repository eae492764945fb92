"""One integer fixes an episode: every choice is a digit of the episode id.

The id is a number in a mixed radix with one digit per factor (which object, which table, which
position...), most significant first, as RL4VLA counts its configurations. So the same id
is the same start everywhere, and ids that differ in one digit differ in one thing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch

from rlcore.contracts.errors import ConfigError
from rlcore.contracts.rng import generator

# Of the values of a divided factor: which part of [0, 1) their draws lie in.
SPLITS = {"heldout": (0.0, 0.2), "validation": (0.2, 0.3), "train": (0.3, 1.0)}


@dataclass(frozen=True)
class Factor:
    """One thing that varies: `size` consecutive values, the lowest being `first`."""

    name: str
    size: int
    first: int = 0


@dataclass(frozen=True)
class Episodes:
    """All episodes of a task: the product of its factors, most significant first.

    Args:
        factors: what varies between episodes.
        divided: the factor whose values are divided among the splits; None if there are too few
            values for that.
    """

    factors: tuple[Factor, ...]
    divided: str | None = None

    @property
    def total(self) -> int:
        """How many different episodes there are."""
        return math.prod(factor.size for factor in self.factors)

    def choices(self, ids: torch.Tensor) -> dict[str, torch.Tensor]:
        """Factor name -> chosen values int64 `[B]` of the ids int64 `[B]`, taken modulo `total`."""
        rest = ids % self.total
        chosen = {}
        for factor in reversed(self.factors):
            chosen[factor.name] = rest % factor.size + factor.first
            rest = rest // factor.size
        return chosen

    def id_of(self, **choices: int) -> int:
        """The id of the episode with these values; a factor that is not named has its lowest.

        Raises:
            ConfigError: no such factor, or a value out of its range.
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
        """The episodes in which these factors have these values.

        Raises:
            ConfigError: no such factor, or a value out of its range.
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
        """The id of a trial; trials are spread over all episodes of their split.

        Each factor has its own random stream. So trial k of two variants with the same range of
        objects has the same object, and variants are compared on paired episodes.
        """
        draws = {}
        for factor in self.factors:
            values = self._values(factor, split)
            chosen = generator("put_on_plate", factor.name, trial).integers(len(values))
            draws[factor.name] = int(values[chosen])
        return self.id_of(**draws)

    def _values(self, factor: Factor, split: str) -> np.ndarray:
        """The values that occur in a split. Which one a value is in does not depend on how many
        others there are; a single value is in all splits."""
        last = factor.first + factor.size
        values = np.arange(factor.first, last)
        if factor.name != self.divided or factor.size == 1:
            return values
        draws = generator("put_on_plate", "held out", factor.name).random(last)[factor.first :]
        first, end = SPLITS[split]
        return values[(first <= draws) & (draws < end)]
