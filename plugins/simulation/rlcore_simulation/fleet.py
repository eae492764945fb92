"""Control the simulator processes of one env: send them commands, collect their answers.

send a command to every process  ->  they simulate in parallel  ->  collect the answers
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from typing import TypeVar

from rlcore.contracts.errors import UserError
from rlcore.contracts.protocols import Demonstration
from rlcore_simulation.block import ObservationBlock
from rlcore_simulation.inprocess import InProcessSimulators
from rlcore_simulation.messages import Command, Demonstrate, Hosting, Reply
from rlcore_simulation.process import SimulatorProcess

Simulators = SimulatorProcess | InProcessSimulators
# The type of all answers to one command.
Answer = TypeVar("Answer")
# Seconds to wait for one process before looking at the next.
GLANCE = 0.01


class SimulatorFleet:
    """All rows of an env, spread over processes in order.

    Args:
        whole: the env, with all of its rows.
        num_processes: 0 simulates in this process.
        block: takes the observations.
    """

    def __init__(self, whole: Hosting, num_processes: int, block: ObservationBlock) -> None:
        count = max(1, min(num_processes, whole.num_envs))
        bounds = [whole.num_envs * number // count for number in range(count + 1)]
        parts = [replace(whole, rows=range(*ends)) for ends in pairwise(bounds)]
        self._members: list[Simulators] = (
            [
                SimulatorProcess(f"{whole.source.name} process {number} of {count}", part, block)
                for number, part in enumerate(parts, start=1)
            ]
            if num_processes
            else [InProcessSimulators(part, block) for part in parts]
        )

    def start(self) -> None:
        """Start the processes, for the first time or after :meth:`close`; they import their
        simulators while the caller goes on."""
        for member in self._members:
            member.start()

    def send(
        self, command: Callable[[range], Command], rows: Iterable[int] | None = None
    ) -> list[Simulators]:
        """Send `command(rows of a process)` to the processes that host `rows`, None: to all.

        Returns:
            the receivers, for :meth:`collect`.
        """
        wanted = None if rows is None else set(rows)
        receivers = [m for m in self._members if wanted is None or not wanted.isdisjoint(m.rows)]
        for member in receivers:
            member.send(command(member.rows))
        return receivers

    def collect(self, kind: type[Answer], senders: Iterable[Simulators]) -> list[Answer]:
        """All answers, each a `kind`. A failure is raised after every other process has answered,
        so that the living ones stay in step with their commands.

        Raises:
            UserError: a command failed (SimulatorError: the process died or hung; any other
                WorkerError: not the user's mistake).
        """
        replies: list[Reply] = []
        failures: list[UserError] = []
        for member in senders:
            try:
                replies.append(member.receive())
            except UserError as error:
                failures.append(error)
        if failures:
            raise failures[0]
        answers = [reply for reply in replies if isinstance(reply, kind)]
        assert len(answers) == len(replies)
        return answers

    def demonstrate(self, waiting: deque[Demonstrate]) -> Iterator[Demonstration]:
        """Expert episodes, one at a time per process, in the order in which they end. A process
        gets its next one before its last is yielded, so it works while the caller does."""
        busy = deque[Simulators]()
        try:
            for member in self._members[: len(waiting)]:
                member.send(waiting.popleft())
                busy.append(member)
            while busy:
                if not busy[0].ready(GLANCE):
                    busy.rotate(-1)
                    continue
                member = busy.popleft()
                played = self.collect(Demonstration, [member])
                if waiting:
                    member.send(waiting.popleft())
                    busy.append(member)
                yield from played
        finally:
            # If the caller stopped early, or one of them failed: what the others still say is not
            # the answer to the next command. Nobody waits for it, so no error of theirs is told.
            for member in busy:
                with suppress(UserError):
                    member.receive()

    def close(self) -> None:
        """End the processes; safe to call twice. All get the same time for it: each may be in the
        middle of something, or hang."""
        for member in self._members:
            member.hang_up()
        for member in self._members:
            member.close()

    @property
    def hosts(self) -> tuple[int, ...]:
        """The number of each row's process."""
        return tuple(number for number, member in enumerate(self._members) for _ in member.rows)

    @property
    def process_ids(self) -> list[int]:
        """Ids of the simulator processes that run."""
        processes = [member for member in self._members if isinstance(member, SimulatorProcess)]
        return [process.pid for process in processes if process.pid is not None]
