"""Simulate in the caller's own process (`num_processes: 0`), so that the simulator can be debugged.

:class:`InProcessSimulators` has the interface of
:class:`rlcore_simulation.process.SimulatorProcess`, but executes a command within `send`.
"""

from __future__ import annotations

import os
import sys

from rlcore.contracts.errors import AssetError
from rlcore_simulation.block import ObservationBlock
from rlcore_simulation.host import RowHost
from rlcore_simulation.messages import Command, Hosting, Reply
from rlcore_simulation.simulator import SimulatorSource


class InProcessSimulators:
    """All rows of an env, in this process. The simulator's exceptions are not wrapped.

    Raises:
        AssetError: a module that reads the simulator's environment at import is already imported.
    """

    def __init__(self, hosting: Hosting, block: ObservationBlock) -> None:
        self.rows = hosting.rows
        self._hosting = hosting
        self._block = block
        _set_environment(hosting.source)
        self._host: RowHost | None = RowHost(hosting, block)
        self._reply: Reply = None

    def start(self) -> None:
        """Make the simulators again if :meth:`close` freed them."""
        if self._host is None:
            self._host = RowHost(self._hosting, self._block)

    def send(self, command: Command) -> None:
        """Execute a command, and store its answer for :meth:`receive`."""
        assert self._host is not None
        self._reply = self._host.carry_out(command)

    def ready(self, timeout: float) -> bool:
        """Return True: the answer exists as soon as the command is sent."""
        return True

    def receive(self) -> Reply:
        """Return the answer to the last command."""
        return self._reply

    def hang_up(self) -> None:
        """Do nothing: there is no process that could end on its own."""

    def close(self) -> None:
        """Free the simulators; safe to call twice."""
        if self._host is not None:
            self._host.close()
            self._host = None


def _set_environment(source: SimulatorSource) -> None:
    missing = source.unset()
    early = [module for module in source.readers if module in sys.modules]
    if missing and early:
        raise AssetError(
            f"{early[0]} was imported in this process before {', '.join(missing)} was set",
            hint="export " + " ".join(f"{name}={value}" for name, value in missing.items()),
        )
    os.environ.update(missing)
