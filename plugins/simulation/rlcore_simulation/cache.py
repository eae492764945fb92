"""Build the simulator of a task when it is first needed, and reuse it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from typing import Generic, TypeVar

from rlcore_simulation.simulator import AnySimulator

S = TypeVar("S", bound=AnySimulator)


@dataclass(eq=False)
class SimulatorCache(Generic[S]):
    """Pool of simulators by task (see :class:`rlcore_simulation.simulator.SimulatorPool`).

    Args:
        build: function that makes a simulator of a task.
        keep: maximum number of idle simulators; the one that has been idle longest is dropped
            first.
        drop: function that frees a simulator, called after it is removed from the pool.
        free: function that frees resources shared by all simulators, called by :meth:`close` after
            all simulators are dropped.
    """

    build: Callable[[int], S]
    _: KW_ONLY
    keep: int
    drop: Callable[[S], None] = lambda simulator: None
    free: Callable[[], None] = lambda: None
    _lent: dict[int, tuple[int, S]] = field(default_factory=dict, init=False)
    """Simulators in use: (task, simulator) by the simulator's id."""
    _idle: dict[int, tuple[int, S]] = field(default_factory=dict, init=False)
    """Idle simulators in the same form, the one that has been idle longest first."""

    def take(self, task: int) -> S:
        """Return a simulator of `task`, for the caller's exclusive use until it is given back."""
        key = next((place for place, (of, _) in self._idle.items() if of == task), None)
        simulator = self.build(task) if key is None else self._idle.pop(key)[1]
        self._lent[id(simulator)] = task, simulator
        return simulator

    def give_back(self, simulator: S) -> None:
        """Give a simulator back; drop those that have been idle longest if there are too many."""
        self._idle[id(simulator)] = self._lent.pop(id(simulator))
        while len(self._idle) > self.keep:
            self.drop(self._idle.pop(next(iter(self._idle)))[1])

    def close(self) -> None:
        """Drop all simulators, including those in use."""
        for simulators in (self._idle, self._lent):
            while simulators:
                self.drop(simulators.popitem()[1][1])
        self.free()
