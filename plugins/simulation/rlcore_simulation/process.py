"""Command one simulator process, and understand its answers and its end."""

from __future__ import annotations

import os
import time

from rlcore.contracts.errors import SimulatorError, WorkerError
from rlcore.contracts.specs import Episode
from rlcore_simulation.block import ObservationBlock
from rlcore_simulation.child import ChildProcess
from rlcore_simulation.messages import Command, Demonstrate, Failure, Hosting, Reply, Reset
from rlcore_simulation.settings import SimulatedEnvConfig
from rlcore_simulation.translate import ANSWERS, decode, encode
from rlcore_simulation.wire import WireError, pack


class SimulatorProcess:
    """Simulator process and the rows that it hosts.

    Args:
        name: name of the process in error messages.
        hosting: description of the env, and the rows to host.
        block: memory with the observations, shared with the process.
    """

    def __init__(self, name: str, hosting: Hosting, block: ObservationBlock) -> None:
        self.name = name
        self.rows = hosting.rows
        self._hosting = hosting
        self._block = block
        self._python = hosting.config.python
        self._command: Command | None = None
        self._episodes: dict[int, Episode] = {}
        self._deadline = 0.0
        self._child: ChildProcess | None = None

    @property
    def pid(self) -> int | None:
        """Process id; None if the process was not started or is closed."""
        return None if self._child is None else self._child.pid

    def start(self) -> None:
        """Start the process, without waiting until it has imported its simulator.

        Raises:
            ConfigError: a setting can't be sent to the process, or another interpreter can't import
                a package that it needs.
            AssetError: its interpreter can't be started.
        """
        hosting = pack(encode(self._hosting))
        self._child = ChildProcess(
            self.name,
            "rlcore_simulation.serve",
            python=self._python,
            packages=self._packages(),
            descriptors=(self._block.descriptor,),
            variables=self._variables(),
            timeout=self._hosting.config.simulator_timeout,
        )
        self._child.tell(hosting)

    def send(self, command: Command) -> None:
        """Send a command, and start its timeout (`simulator_timeout`).

        :meth:`receive` returns the answer.
        """
        self._deadline = time.monotonic() + self._hosting.config.simulator_timeout
        self._command = command
        if isinstance(command, Reset):
            self._episodes |= command.episodes
        self._block.busy[self.rows.start : self.rows.stop] = 0
        if self._child is not None:
            self._child.tell(pack(encode(command)))

    def ready(self, timeout: float) -> bool:
        """Check, for up to `timeout` seconds, whether :meth:`receive` would return or raise."""
        if self._child is None or time.monotonic() >= self._deadline:
            return True
        return self._child.ready(timeout)

    def receive(self) -> Reply:
        """Wait for the answer to the last command, and return it.

        Raises:
            UserError: the command failed for a reason that the user can fix.
            WorkerError: the command failed for another reason.
            SimulatorError: the process died or was closed, or it exceeded the timeout and was
                killed.
            WireError: the process sent an invalid message, and was killed.
        """
        if self._child is None or self._child.pipe is None:
            raise SimulatorError(f"{self.name} is not running: it was lost or closed")
        try:
            reply: Reply | Failure = decode(self._child.answer(self._deadline), ANSWERS)
        except (TimeoutError, BlockingIOError):  # no answer came, or only a part of it
            seconds = self._hosting.config.simulator_timeout
            text = f"did not answer within {seconds:g} s (env simulator_timeout)"
            raise self._lost(text) from None
        except (EOFError, ConnectionError):
            raise self._lost(f"died ({self._child.cause_of_death()})") from None
        except WireError as fault:  # later messages could not be trusted either
            raise WireError(f"{self._lost('is not understood').message}: {fault}") from None
        if isinstance(reply, Failure):
            hint = self._mending(reply)
            if (error := reply.error) is not None:
                raise type(error)(f"{self.name}: {error.message}", hint=hint or error.hint)
            raise WorkerError(f"{self.name} failed: {reply.summary}\n{reply.traceback}", hint=hint)
        return reply

    def hang_up(self) -> None:
        """Close the pipe, so that the process ends by itself; :meth:`close` waits for its end."""
        if self._child is not None:
            self._child.hang_up()

    def close(self) -> None:
        """End the process, and kill it if it does not end by itself; safe to call twice."""
        if self._child is not None:
            self._child.close()
            self._child = None

    def _packages(self) -> list[str]:
        """Return the packages of the simulator and of its settings, for another interpreter."""
        kinds = type(self._hosting.config).__mro__
        settings = [kind.__module__ for kind in kinds if issubclass(kind, SimulatedEnvConfig)]
        return [*self._hosting.source.to_link, *settings]

    def _variables(self) -> dict[str, str]:
        """Return environment variables: those of the simulator's source, and a limit of one thread,
        because rows already run in parallel."""
        threads = {
            name: os.environ.get(name, "1") for name in ("LP_NUM_THREADS", "OMP_NUM_THREADS")
        }
        return {**threads, **self._hosting.source.unset()}

    def _mending(self, failure: Failure) -> str | None:
        """Return a hint on how to provide a module that another interpreter did not find."""
        if self._python is None or not failure.missing:
            return None
        top = failure.missing.partition(".")[0]
        return (
            f"install what brings the module {top!r} into the environment of {self._python}, or "
            "import it only in modules that make and describe the env; requirements of the env's "
            "ComponentSpec name it for rlcore venv create, and "
            f"SimulatorSource(packages=({top!r},)) a package of your own"
        )

    def _lost(self, what: str) -> SimulatorError:
        """Kill a process that died or hangs, with its children, and return the error for it."""
        pid = self.pid
        if self._child is not None:
            self._child.kill()
        self.close()
        return SimulatorError(f"{self.name} (pid {pid}) {what}{self._whereabouts()}")

    def _whereabouts(self) -> str:
        """Describe the work of the process: the row marked as busy, or the demonstrated episode."""
        if isinstance(self._command, Demonstrate):
            return f" while it demonstrated {self._episode_text(self._command.episode)}"
        for row in self.rows:
            if self._block.busy[row]:
                return f" while it worked on row {row}, {self._episode_text(self._episodes[row])}"
        return f"; it hosts rows {self.rows.start} to {self.rows.stop - 1}"

    def _episode_text(self, episode: Episode) -> str:
        return f"task {self._hosting.spec.tasks[episode.task]!r} trial {episode.trial}"
