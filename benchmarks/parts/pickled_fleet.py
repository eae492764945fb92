"""Run simulator processes that pickle their observations into a pipe.

It is the interface of rlcore's own processes, which write observations into memory that they share
with the env worker. What is simulated is the same code.
"""

from __future__ import annotations

import multiprocessing
import os
from dataclasses import replace
from itertools import pairwise
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
from rlcore_simulation.block import ObservationBlock
from rlcore_simulation.fleet import SimulatorFleet
from rlcore_simulation.messages import Command, Hosting, Reply

FRAMES_OF_STEPS: list[dict[str, np.ndarray]] = []
"""Frames that a simulator of this process has rendered at steps since the last answer."""
STOP_SECONDS = 10.0


class PickledProcess:
    """A process and the rows that it hosts, with the methods of
    :class:`rlcore_simulation.process.SimulatorProcess`."""

    def __init__(self, hosting: Hosting, block: ObservationBlock) -> None:
        self.rows = hosting.rows
        self._hosting = hosting
        self._block = block
        self._pipe: Connection | None = None
        self._process: Any = None

    def start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, self._hosting), daemon=True)
        self._process.start()
        theirs.close()

    def send(self, command: Command) -> None:
        assert self._pipe is not None
        self._pipe.send(command)

    def ready(self, timeout: float) -> bool:
        assert self._pipe is not None
        return self._pipe.poll(timeout)

    def receive(self) -> Reply:
        """Return the answer to the last command, after its observations are copied."""
        assert self._pipe is not None
        reply, observations, _ = self._pipe.recv()
        for array, received in zip(_arrays(self._block, self.rows), observations, strict=True):
            array[:] = received
        answer: Reply = reply
        return answer

    def hang_up(self) -> None:
        if self._pipe is not None:
            self._pipe.close()
            self._pipe = None

    def close(self) -> None:
        self.hang_up()
        if self._process is not None:
            self._process.join(STOP_SECONDS)
            self._process.kill()
            self._process = None


class PickledFleet(SimulatorFleet):
    """A fleet of such processes."""

    def __init__(self, whole: Hosting, num_processes: int, block: ObservationBlock) -> None:
        count = max(1, min(num_processes, whole.num_envs))
        bounds = [whole.num_envs * number // count for number in range(count + 1)]
        members: Any = [
            PickledProcess(replace(whole, rows=range(*ends)), block) for ends in pairwise(bounds)
        ]
        self._members = members


def _serve(pipe: Connection, hosting: Hosting) -> None:
    os.environ.update({"LP_NUM_THREADS": "1", **hosting.source.unset()})
    from rlcore_simulation.host import RowHost

    block = ObservationBlock(hosting.num_envs, hosting.spec)  # of this process alone
    host = RowHost(hosting, block)
    while True:
        try:
            command = pipe.recv()
        except EOFError:
            os._exit(0)  # exit handlers of OpenGL libraries may hang
        answer = host.carry_out(command)
        pipe.send((answer, _arrays(block, hosting.rows), FRAMES_OF_STEPS))
        FRAMES_OF_STEPS.clear()


def _arrays(block: ObservationBlock, rows: range) -> list[np.ndarray]:
    """Return views of the rows' observations."""
    whole = [block.states, block.elapsed, *block.frames.values()]
    return [array[rows.start : rows.stop] for array in whole]
