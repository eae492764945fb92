"""Start, command and end one simulator process, from its parent's side.

The process is a fresh interpreter that imports the simulator and nothing of the caller's: not its
`__main__` (under Ray that would import Ray again), not its GPU context, not its threads. It has a
session of its own, so that a terminal's Ctrl-C does not reach it, and so that its own child
processes end with it. Every wait here has a timeout, whatever the simulator does.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import struct
import subprocess
import time
from multiprocessing import Pipe
from multiprocessing.connection import Connection

from rlcore.contracts.errors import AssetError, SimulatorError, WorkerError
from rlcore.contracts.specs import Episode
from rlcore_simulation import interpreters
from rlcore_simulation.block import ObservationBlock
from rlcore_simulation.messages import Command, Demonstrate, Failure, Hosting, Reply, Reset
from rlcore_simulation.settings import SimulatedEnvConfig
from rlcore_simulation.staging import LIBRARY, staged
from rlcore_simulation.translate import ANSWERS, decode, encode
from rlcore_simulation.wire import Message, WireError, pack, receive

# Seconds for a process to end by itself once its pipe is closed.
STOP_GRACE = 5.0
# Seconds between looks whether a process that does not answer is still there: one that it has
# started may hold its pipe open.
LOOK_INTERVAL = 0.5


class SimulatorProcess:
    """One simulator process and the rows it hosts.

    Args:
        name: what errors call it.
        hosting: which rows of which env.
        block: the observations it shares with this process.
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
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe: Connection | None = None

    @property
    def pid(self) -> int | None:
        """Process id, None while it does not run."""
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Start the process; it imports its simulator while the caller goes on.

        Raises:
            ConfigError: what it needs of this interpreter's packages can't be handed on.
            AssetError: its interpreter is gone, or there is no room for what it is handed.
        """
        hosting = pack(encode(self._hosting))
        self._pipe, theirs = Pipe()
        _limit(self._pipe, self._hosting.config.simulator_timeout)
        descriptors = (theirs.fileno(), self._block.descriptor)
        path = self._staged()
        command = interpreters.command(
            "rlcore_simulation.serve", *map(str, descriptors), python=self._python, path=path
        )
        try:
            self._process = subprocess.Popen(
                command,
                pass_fds=descriptors,
                env=self._environment(path),
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:  # it was there when it was looked at
            raise AssetError(f"{self.name}: {command[0]}: {error.strerror}") from None
        finally:
            theirs.close()
        self._tell(hosting)

    def send(self, command: Command) -> None:
        """Send a command; :meth:`receive` gets the answer. Its time limit starts now."""
        self._deadline = time.monotonic() + self._hosting.config.simulator_timeout
        self._command = command
        if isinstance(command, Reset):
            self._episodes |= command.episodes
        self._block.busy[self.rows.start : self.rows.stop] = 0
        self._tell(pack(encode(command)))

    def ready(self, timeout: float) -> bool:
        """Whether :meth:`receive` would return or raise at once; waits up to `timeout` seconds."""
        if self._pipe is None or time.monotonic() >= self._deadline:
            return True
        dead = self._process is not None and self._process.poll() is not None
        return self._pipe.poll(0.0 if dead else timeout) or dead

    def receive(self) -> Reply:
        """The answer to the last command.

        Raises:
            UserError: the command failed for a reason that the user can fix.
            WorkerError: it failed for another reason.
            SimulatorError: the process died, or took too long and was killed.
        """
        if self._pipe is None:
            raise SimulatorError(f"{self.name} is not running: it was lost or closed")
        try:
            reply: Reply | Failure = decode(self._answer(self._pipe), ANSWERS)
        except (TimeoutError, BlockingIOError):  # nothing came, or it stopped in the middle
            seconds = self._hosting.config.simulator_timeout
            text = f"did not answer within {seconds:g} s (env simulator_timeout)"
            raise self._lost(text) from None
        except (EOFError, ConnectionError):
            raise self._lost(f"died ({self._cause_of_death()})") from None
        except WireError as fault:  # nothing that follows could be trusted
            raise WireError(f"{self._lost('is not understood').message}: {fault}") from None
        if isinstance(reply, Failure):
            hint = self._mending(reply)
            if (error := reply.error) is not None:
                raise type(error)(f"{self.name}: {error.message}", hint=hint or error.hint)
            raise WorkerError(f"{self.name} failed: {reply.summary}\n{reply.traceback}", hint=hint)
        return reply

    def hang_up(self) -> None:
        """Let the process end by itself; :meth:`close` waits for it."""
        if self._pipe is not None:
            self._pipe.close()
            self._pipe = None
            self._deadline = time.monotonic() + STOP_GRACE

    def close(self) -> None:
        """End the process, by force if it does not end by itself; safe to call twice."""
        self.hang_up()
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(max(0.0, self._deadline - time.monotonic()))
            self._kill()
            self._process.wait()
            self._process = None

    def _tell(self, message: bytes) -> None:
        """Send a message. Of a process that is dead, or takes nothing, :meth:`receive` says so; its
        last answer may still be in the pipe."""
        if self._pipe is not None:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError, BlockingIOError):
                self._pipe.send_bytes(message)

    def _answer(self, pipe: Connection) -> Message:
        """The next message of the process.

        Raises:
            EOFError, ConnectionError: it is dead.
            TimeoutError, BlockingIOError: it is late.
        """
        while not pipe.poll(min(LOOK_INTERVAL, max(0.0, self._deadline - time.monotonic()))):
            assert self._process is not None
            if self._process.poll() is not None and not pipe.poll():
                raise EOFError
            if time.monotonic() >= self._deadline:
                raise TimeoutError
        return receive(pipe)

    def _kill(self) -> None:
        """Kill the process and those that it has started."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)  # type: ignore[union-attr] # it was started

    def _staged(self) -> list[str]:
        """What another interpreter is handed: the packages of the simulator and of its settings,
        and light ones of ours, in a folder that holds nothing else."""
        if self._python is None:
            return []
        kinds = type(self._hosting.config).__mro__
        settings = [kind.__module__ for kind in kinds if issubclass(kind, SimulatedEnvConfig)]
        version = interpreters.look(self._python).version
        return [str(staged([*self._hosting.source.to_stage, *settings], version))]

    def _environment(self, path: list[str]) -> dict[str, str]:
        """This process's environment, the simulator's variables, and one thread, as there are many
        rows. Modules are found where this process finds them; by another interpreter in its own
        environment and on `path`."""
        at_home = self._python is None
        environment = interpreters.environment(None if at_home else path)
        environment |= self._hosting.source.unset()
        environment.setdefault("LP_NUM_THREADS", "1")
        environment.setdefault("OMP_NUM_THREADS", "1")
        return environment

    def _mending(self, failure: Failure) -> str | None:
        """What brings a module that another interpreter did not find."""
        if self._python is None or not failure.missing:
            return None
        top = failure.missing.partition(".")[0]
        if top in ("rlcore", LIBRARY):
            return (
                f"simulators under another interpreter get no {failure.missing}: import it in "
                "modules that make and describe the env, not in those that simulate"
            )
        return (
            f"install what brings the module {top!r} into the environment of {self._python}; "
            "requirements of the env's ComponentSpec name it for rlcore venv create, and "
            f"SimulatorSource(packages=({top!r},)) a package of your own"
        )

    def _cause_of_death(self) -> str:
        assert self._process is not None
        try:
            code = self._process.wait(STOP_GRACE)
        except subprocess.TimeoutExpired:
            return "it has closed its pipe"
        return f"killed by signal {-code}" if code < 0 else f"exit code {code}"

    def _lost(self, what: str) -> SimulatorError:
        """The error for a process that died or hangs; kills it."""
        pid = self.pid
        self._kill()
        self.close()
        return SimulatorError(f"{self.name} (pid {pid}) {what}{self._whereabouts()}")

    def _whereabouts(self) -> str:
        """What it was working on: the row that it had marked, or the episode to demonstrate."""
        if isinstance(self._command, Demonstrate):
            return f" while it demonstrated {self._episode_text(self._command.episode)}"
        for row in self.rows:
            if self._block.busy[row]:
                return f" while it worked on row {row}, {self._episode_text(self._episodes[row])}"
        return f"; it hosts rows {self.rows.start} to {self.rows.stop - 1}"

    def _episode_text(self, episode: Episode) -> str:
        return f"task {self._hosting.spec.tasks[episode.task]!r} trial {episode.trial}"


def _limit(pipe: Connection, seconds: float) -> None:
    """Let no transfer over a pipe stand still for longer: who takes nothing, or stops in the middle
    of a message, would be waited for without end."""
    limit = struct.pack("@ll", int(seconds), int(seconds % 1 * 1e6))
    with socket.socket(fileno=os.dup(pipe.fileno())) as end:
        end.setblocking(True)  # also where somebody has called socket.setdefaulttimeout
        for option in (socket.SO_SNDTIMEO, socket.SO_RCVTIMEO):
            end.setsockopt(socket.SOL_SOCKET, option, limit)
