"""Build a task's simulator when it is first needed, and reuse it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from rlcore_simulation.simulator import AnySimulator

S = TypeVar("S", bound=AnySimulator)


class SimulatorCache(Generic[S]):
    """Lends simulators by task (see :class:`rlcore_simulation.simulator.SimulatorPool`).

    Args:
        build: makes a simulator of a task.
        keep: idle simulators that are kept; the one returned longest ago goes first.
        drop: frees a simulator; called once nobody can get it any more.
    """

    def __init__(
        self,
        build: Callable[[int], S],
        *,
        keep: int,
        drop: Callable[[S], None] = lambda simulator: None,
    ) -> None:
        self._build = build
        self._keep = keep
        self._drop = drop
        self._lent: dict[int, tuple[int, S]] = {}  # by id: task and simulator
        self._idle: dict[int, tuple[int, S]] = {}  # likewise, oldest first

    def take(self, task: int) -> S:
        """A simulator of `task`, for this caller only until it is given back."""
        found = next((place for place, (of, _) in self._idle.items() if of == task), None)
        simulator = self._build(task) if found is None else self._idle.pop(found)[1]
        self._lent[id(simulator)] = task, simulator
        return simulator

    def give_back(self, simulator: S) -> None:
        """Return a simulator; may drop the one that has been idle longest."""
        self._idle[id(simulator)] = self._lent.pop(id(simulator))
        while len(self._idle) > self._keep:
            self._drop(self._idle.pop(next(iter(self._idle)))[1])

    def close(self) -> None:
        """Drop all simulators, lent ones too."""
        for simulators in (self._idle, self._lent):
            while simulators:
                self._drop(simulators.popitem()[1][1])
