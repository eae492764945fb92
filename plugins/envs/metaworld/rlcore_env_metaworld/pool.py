"""The simulators of one process, built when a task is first asked for and then reused."""

from __future__ import annotations

from collections import OrderedDict

from rlcore_env_metaworld.render import Renderer, View
from rlcore_env_metaworld.simulator import Simulator


class SimulatorPool:
    """Lends simulators by task. Building one takes half a second, starting an episode 30 ms.

    Args:
        view: how they draw.
        settle_steps: steps without motion after each start.
        idle_limit: simulators kept that nobody uses; the one returned longest ago goes first.
    """

    def __init__(self, view: View, settle_steps: int, idle_limit: int) -> None:
        self._view = view
        self._settle_steps = settle_steps
        self._idle_limit = idle_limit
        self._idle: OrderedDict[int, Simulator] = OrderedDict()  # by id, oldest first
        self._count: dict[str, int] = {}  # simulators of a task, lent and idle
        self._renderers: dict[str, Renderer] = {}

    def take(self, task: str) -> Simulator:
        """A simulator of `task` for the caller alone, until it is given back."""
        for place, simulator in self._idle.items():
            if simulator.task == task:
                return self._idle.pop(place)
        simulator = Simulator(task, self._view, self._settle_steps)
        self._count[task] = self._count.get(task, 0) + 1
        return simulator

    def give_back(self, simulator: Simulator) -> None:
        """Return a simulator; may drop the one that has been idle longest."""
        self._idle[id(simulator)] = simulator
        while len(self._idle) > self._idle_limit:
            _, dropped = self._idle.popitem(last=False)
            self._count[dropped.task] -= 1
            if not self._count[dropped.task] and dropped.task in self._renderers:
                self._renderers.pop(dropped.task).close()

    def renderer(self, simulator: Simulator) -> Renderer:
        """The renderer of the simulator's task, shared by all simulators of it."""
        if simulator.task not in self._renderers:
            self._renderers[simulator.task] = Renderer(simulator.model, self._view)
        return self._renderers[simulator.task]

    def close(self) -> None:
        """Free all renderers."""
        self._idle.clear()
        while self._renderers:
            self._renderers.popitem()[1].close()
