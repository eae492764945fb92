"""Build a task's simulator when it is first needed, and reuse it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from typing import Generic, TypeVar

from rlcore_simulation.simulator import AnySimulator

S = TypeVar("S", bound=AnySimulator)


@dataclass(eq=False)
class SimulatorCache(Generic[S]):
    """Lends simulators by task (see :class:`rlcore_simulation.simulator.SimulatorPool`).

    Args:
        build: makes a simulator of a task.
        keep: idle simulators that are kept; the one returned longest ago goes first.
        drop: frees a simulator; called once nobody can get it any more.
        free: frees what simulators share; called when all of them were dropped for good.
    """

    build: Callable[[int], S]
    _: KW_ONLY
    keep: int
    drop: Callable[[S], None] = lambda simulator: None
    free: Callable[[], None] = lambda: None
    _lent: dict[int, tuple[int, S]] = field(default_factory=dict, init=False)
    """By id: task and simulator."""
    _idle: dict[int, tuple[int, S]] = field(default_factory=dict, init=False)
    """Likewise, oldest first."""

    def take(self, task: int) -> S:
        """A simulator of `task`, for this caller only until it is given back."""
        found = next((place for place, (of, _) in self._idle.items() if of == task), None)
        simulator = self.build(task) if found is None else self._idle.pop(found)[1]
        self._lent[id(simulator)] = task, simulator
        return simulator

    def give_back(self, simulator: S) -> None:
        """Return a simulator; may drop the one that has been idle longest."""
        self._idle[id(simulator)] = self._lent.pop(id(simulator))
        while len(self._idle) > self.keep:
            self.drop(self._idle.pop(next(iter(self._idle)))[1])

    def close(self) -> None:
        """Drop all simulators, lent ones too."""
        for simulators in (self._idle, self._lent):
            while simulators:
                self.drop(simulators.popitem()[1][1])
        self.free()
