"""Simulation in the caller's own process (`num_processes: 0`), so that pdb works in it.

It answers as :class:`rlcore_env_metaworld.process.SimulatorProcess` does, but carries out a
command when it is sent.
"""

from __future__ import annotations

import os
import sys

from rlcore.errors import AssetError, WorkerError
from rlcore_env_metaworld.block import ObservationBlock
from rlcore_env_metaworld.messages import Command, Hosting, Reply


class InProcessSimulators:
    """All rows of an env in this process. Exceptions of the simulator come as they are."""

    def __init__(self, hosting: Hosting, block: ObservationBlock, gl: str | None) -> None:
        self.rows = hosting.rows
        if gl is not None and "MUJOCO_GL" not in os.environ:
            if "mujoco" in sys.modules:  # it has read the variable, and GL fails without it
                raise AssetError(
                    "mujoco was imported in this process before MUJOCO_GL was set",
                    hint=f"export MUJOCO_GL={gl}",
                )
            os.environ["MUJOCO_GL"] = gl
        from rlcore_env_metaworld.host import RowHost  # imports MuJoCo, which reads MUJOCO_GL

        self._host: RowHost | None = RowHost(hosting.config, hosting.rows, block)
        self._reply: Reply = None

    def start(self) -> None:
        """Nothing to start."""

    def send(self, command: Command) -> None:
        """Carry out a command."""
        if self._host is None:
            raise WorkerError("this MetaWorld env is closed")
        self._reply = self._host.carry_out(command)

    def ready(self, timeout: float) -> bool:
        """Always: the answer is there once the command is sent."""
        return True

    def receive(self) -> Reply:
        """The answer to the last command."""
        return self._reply

    def close(self) -> None:
        """Free the renderers; safe to call twice."""
        if self._host is not None:
            self._host.close()
            self._host = None
