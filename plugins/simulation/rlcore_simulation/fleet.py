"""Control the simulator processes of one env: send commands, and collect their answers.

send a command to every process  ->  processes simulate in parallel  ->  collect the answers
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
# type of all answers to one command
Answer = TypeVar("Answer")
# seconds to wait for one process before the next one is polled
GLANCE = 0.01


class SimulatorFleet:
    """Simulator processes of an env, each of which hosts a range of consecutive rows.

    Args:
        whole: description of the env with all of its rows.
        num_processes: number of processes, at most one per row is started; 0 simulates in this
            process.
        block: memory into which the processes write observations.
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
        """Start the processes, for the first time or after :meth:`close`.

        The call does not wait until they have imported their simulators.
        """
        for member in self._members:
            member.start()

    def send(
        self, command: Callable[[range], Command], rows: Iterable[int] | None = None
    ) -> list[Simulators]:
        """Send `command(rows of a process)` to each process that hosts some of `rows`.

        Args:
            rows: row numbers; None selects all processes.

        Returns:
            processes that the command was sent to, for :meth:`collect`.
        """
        selected = None if rows is None else set(rows)
        receivers = [
            m for m in self._members if selected is None or not selected.isdisjoint(m.rows)
        ]
        for member in receivers:
            member.send(command(member.rows))
        return receivers

    def collect(self, kind: type[Answer], senders: Iterable[Simulators]) -> list[Answer]:
        """Wait for the answers of `senders`, and return them; each must be a `kind`.

        If a process fails, the first error is raised after all processes have answered, so that no
        pipe still holds an answer when the next command is sent.

        Raises:
            UserError: a command failed. SimulatorError: the process died or hung. Any other
                WorkerError: the command failed, and not by the user's mistake.
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
        """Yield expert episodes in the order in which they end; each process plays one at a time.

        A process gets its next episode before its last one is yielded, so that it simulates while
        the caller works on that one.
        """
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
                demonstrations = self.collect(Demonstration, [member])
                if waiting:
                    member.send(waiting.popleft())
                    busy.append(member)
                yield from demonstrations
        finally:
            # If the caller stopped early or a process failed, the pending answers of the others
            # must not be taken for answers to the next command. Their errors are dropped, because
            # no caller waits for these episodes.
            for member in busy:
                with suppress(UserError):
                    member.receive()

    def close(self) -> None:
        """End the processes; safe to call twice.

        All pipes are closed first, so that the grace periods of the processes run in parallel.
        """
        for member in self._members:
            member.hang_up()
        for member in self._members:
            member.close()

    @property
    def hosts(self) -> tuple[int, ...]:
        """Process number of each row, counted from 0."""
        return tuple(number for number, member in enumerate(self._members) for _ in member.rows)

    @property
    def process_ids(self) -> list[int]:
        """Ids of the running simulator processes."""
        processes = [member for member in self._members if isinstance(member, SimulatorProcess)]
        return [process.pid for process in processes if process.pid is not None]
