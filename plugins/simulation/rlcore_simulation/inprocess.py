"""Simulate in the caller's own process (`num_processes: 0`), so that pdb works in it.

It answers like :class:`rlcore_simulation.process.SimulatorProcess`, but carries out a command as
soon as it is sent.
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
    """All rows of an env in this process. Exceptions of the simulator are not wrapped.

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
        """Make the simulators, if they were freed."""
        if self._host is None:
            self._host = RowHost(self._hosting, self._block)

    def send(self, command: Command) -> None:
        """Carry out a command."""
        assert self._host is not None
        self._reply = self._host.carry_out(command)

    def ready(self, timeout: float) -> bool:
        """Always true: the answer exists once the command is sent."""
        return True

    def receive(self) -> Reply:
        """The answer to the last command."""
        return self._reply

    def hang_up(self) -> None:
        """Nothing ends by itself here."""

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
