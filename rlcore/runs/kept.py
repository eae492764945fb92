"""Choose which of several policies to keep, by success on the same validation starts.

The rule keeps the latest policy that is not below the best. The best has the highest success rate,
the first of equals. A policy is below it if the 95% interval of the paired difference, policy -
best, lies wholly below zero (:func:`rlcore.runs.statistics.paired_difference`).

The highest of many rates is partly luck, and training that went on seldom makes a policy worse, so
among policies that can't be told apart the latest has seen most.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rlcore.runs.statistics import Passes, paired_difference, success_rate

Starts = Mapping[tuple[str, int], Passes]
"""Success of each pass from each start (task, trial)."""


@dataclass
class Choice:
    """The choice among the policies that were played so far.

    Attributes:
        best: success of the best of them; None before the first.
    """

    best: Starts | None = None

    def keeps(self, latest: Starts) -> bool:
        """Return whether the latest policy is kept, in place of the one that was kept before.

        If it was played from other starts than the best, as after a change of the starts in a
        resumed run, that policy is the new best.

        Args:
            latest: success of the latest policy.
        """
        if self.best is None or self._is_new_best(self.best, latest):
            self.best = latest
        return paired_difference(self.best, latest).hi >= 0

    @staticmethod
    def _is_new_best(best: Starts, latest: Starts) -> bool:
        if _passes(best) != _passes(latest):
            return True
        return success_rate([*latest.values()]).rate > success_rate([*best.values()]).rate


def _passes(starts: Starts) -> dict[tuple[str, int], int]:
    return {start: len(passes) for start, passes in starts.items()}


def to_json(starts: Starts | None) -> list[list[Any]] | None:
    """Return success by start as lists `[task, trial, [success of each pass]]`; None as None."""
    if starts is None:
        return None
    return [[task, trial, [*passes]] for (task, trial), passes in starts.items()]


def from_json(rows: Sequence[Sequence[Any]] | None) -> Starts | None:
    """Return what :func:`to_json` was given."""
    return None if rows is None else {(task, trial): passes for task, trial, passes in rows}
