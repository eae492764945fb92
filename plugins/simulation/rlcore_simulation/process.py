"""Start, command and end one simulator process, from the parent's side.

The process is a new interpreter that imports the simulator. It inherits neither the caller's
`__main__` (under Ray that would import Ray again) nor its GPU context or its threads. It runs in a
new session, so that a terminal's Ctrl-C does not reach it, and so that its child processes can be
killed with it. Every wait in this module has a timeout.
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
from pathlib import Path
from tempfile import TemporaryDirectory

from rlcore.contracts.errors import AssetError, SimulatorError, WorkerError
from rlcore.contracts.specs import Episode
from rlcore_simulation import interpreters
from rlcore_simulation.block import ObservationBlock
from rlcore_simulation.messages import Command, Demonstrate, Failure, Hosting, Reply, Reset
from rlcore_simulation.module_links import link_modules
from rlcore_simulation.settings import SimulatedEnvConfig
from rlcore_simulation.translate import ANSWERS, decode, encode
from rlcore_simulation.wire import Message, WireError, pack, receive

# seconds in which a process must end by itself after its pipe is closed
STOP_GRACE = 5.0
# Seconds between checks whether a process that does not answer is alive. The pipe alone does not
# show its death, because a child process may hold the pipe open.
LOOK_INTERVAL = 0.5


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
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe: Connection | None = None
        self._modules: TemporaryDirectory[str] | None = None

    @property
    def pid(self) -> int | None:
        """Process id; None if the process was not started or is closed."""
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Start the process, without waiting until it has imported its simulator.

        Raises:
            ConfigError: a setting can't be sent to the process, or another interpreter can't import
                a package that it needs.
            AssetError: its interpreter can't be started.
        """
        hosting = pack(encode(self._hosting))
        self._pipe, theirs = Pipe()
        _limit(self._pipe, self._hosting.config.simulator_timeout)
        descriptors = (theirs.fileno(), self._block.descriptor)
        path = self._linked_modules()
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
        except OSError as error:  # the interpreter was removed since its versions were read
            raise AssetError(f"{self.name}: {command[0]}: {error.strerror}") from None
        finally:
            theirs.close()
        self._tell(hosting)

    def send(self, command: Command) -> None:
        """Send a command, and start its timeout (`simulator_timeout`).

        :meth:`receive` returns the answer.
        """
        self._deadline = time.monotonic() + self._hosting.config.simulator_timeout
        self._command = command
        if isinstance(command, Reset):
            self._episodes |= command.episodes
        self._block.busy[self.rows.start : self.rows.stop] = 0
        self._tell(pack(encode(command)))

    def ready(self, timeout: float) -> bool:
        """Check, for up to `timeout` seconds, whether :meth:`receive` would return or raise."""
        if self._pipe is None or time.monotonic() >= self._deadline:
            return True
        dead = self._process is not None and self._process.poll() is not None
        return self._pipe.poll(0.0 if dead else timeout) or dead

    def receive(self) -> Reply:
        """Wait for the answer to the last command, and return it.

        Raises:
            UserError: the command failed for a reason that the user can fix.
            WorkerError: the command failed for another reason.
            SimulatorError: the process died or was closed, or it exceeded the timeout and was
                killed.
            WireError: the process sent an invalid message, and was killed.
        """
        if self._pipe is None:
            raise SimulatorError(f"{self.name} is not running: it was lost or closed")
        try:
            reply: Reply | Failure = decode(self._answer(self._pipe), ANSWERS)
        except (TimeoutError, BlockingIOError):  # no answer came, or only a part of it
            seconds = self._hosting.config.simulator_timeout
            text = f"did not answer within {seconds:g} s (env simulator_timeout)"
            raise self._lost(text) from None
        except (EOFError, ConnectionError):
            raise self._lost(f"died ({self._cause_of_death()})") from None
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
        if self._pipe is not None:
            self._pipe.close()
            self._pipe = None
            self._deadline = time.monotonic() + STOP_GRACE

    def close(self) -> None:
        """End the process, and kill it if it does not end by itself; safe to call twice."""
        self.hang_up()
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(max(0.0, self._deadline - time.monotonic()))
            self._kill()
            self._process.wait()
            self._process = None
        if self._modules is not None:
            self._modules.cleanup()
            self._modules = None

    def _tell(self, message: bytes) -> None:
        """Send a message.

        Errors are ignored here: if the process is dead or reads nothing, :meth:`receive` raises,
        after it has read an answer that may still be in the pipe.
        """
        if self._pipe is not None:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError, BlockingIOError):
                self._pipe.send_bytes(message)

    def _answer(self, pipe: Connection) -> Message:
        """Wait for the next message of the process, and return it.

        Raises:
            EOFError, ConnectionError: the process is dead.
            TimeoutError, BlockingIOError: the timeout of the command expired.
            WireError: the message is invalid.
        """
        while not pipe.poll(min(LOOK_INTERVAL, max(0.0, self._deadline - time.monotonic()))):
            assert self._process is not None
            if self._process.poll() is not None and not pipe.poll():
                raise EOFError
            if time.monotonic() >= self._deadline:
                raise TimeoutError
        return receive(pipe)

    def _kill(self) -> None:
        """Kill the process and its child processes."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)  # type: ignore[union-attr] # it was started

    def _linked_modules(self) -> list[str]:
        """Link packages for another interpreter; return the folders for its module path.

        These are the packages of the simulator and of its settings, rlcore and this library. The
        list is empty if the simulators run in rlcore's own interpreter.
        """
        if self._python is None:
            return []
        kinds = type(self._hosting.config).__mro__
        settings = [kind.__module__ for kind in kinds if issubclass(kind, SimulatedEnvConfig)]
        self._modules = TemporaryDirectory(prefix="rlcore-modules-", ignore_cleanup_errors=True)
        link_modules(Path(self._modules.name), [*self._hosting.source.to_link, *settings])
        return [self._modules.name]

    def _environment(self, path: list[str]) -> dict[str, str]:
        """Return the environment variables of the process.

        These are the variables of this process and of the simulator's source, and a limit of one
        thread, because rows already run in parallel. The process finds modules where this process
        does; another interpreter finds them in its own environment and on `path`.
        """
        at_home = self._python is None
        environment = interpreters.environment(None if at_home else path)
        environment |= self._hosting.source.unset()
        environment.setdefault("LP_NUM_THREADS", "1")
        environment.setdefault("OMP_NUM_THREADS", "1")
        return environment

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

    def _cause_of_death(self) -> str:
        assert self._process is not None
        try:
            code = self._process.wait(STOP_GRACE)
        except subprocess.TimeoutExpired:
            return "it has closed its pipe"
        return f"killed by signal {-code}" if code < 0 else f"exit code {code}"

    def _lost(self, what: str) -> SimulatorError:
        """Kill a process that died or hangs, with its children, and return the error for it."""
        pid = self.pid
        self._kill()
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


def _limit(pipe: Connection, seconds: float) -> None:
    """Set a timeout in seconds for each read and write on a pipe.

    Without it, this process would wait forever for a peer that reads nothing or stops in the middle
    of a message.
    """
    limit = struct.pack("@ll", int(seconds), int(seconds % 1 * 1e6))
    with socket.socket(fileno=os.dup(pipe.fileno())) as end:
        end.setblocking(True)  # even if socket.setdefaulttimeout was called in this process
        for option in (socket.SO_SNDTIMEO, socket.SO_RCVTIMEO):
            end.setsockopt(socket.SOL_SOCKET, option, limit)
