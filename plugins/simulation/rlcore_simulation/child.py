"""Start, address and end one Python process that answers messages, from the parent's side.

The process is a new interpreter, which runs a module that serves a pipe (:mod:`.serving`). It
inherits neither the caller's `__main__` (under Ray that would import Ray again) nor its GPU context
or its threads. It runs in a new session, so that a terminal's Ctrl-C does not reach it, and so that
its child processes can be killed with it. Every wait in this module has a timeout.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory

from rlcore.contracts.errors import AssetError
from rlcore_simulation import interpreters
from rlcore_simulation.module_links import link_modules
from rlcore_simulation.wire import Message, receive

# seconds in which a process must end by itself after its pipe is closed
STOP_GRACE = 5.0
# Seconds between checks whether a process that does not answer is alive. The pipe alone does not
# show its death, because a child process may hold the pipe open.
LOOK_INTERVAL = 0.5


class ChildProcess:
    """Process that serves a pipe, started without waiting for what it imports.

    Args:
        name: name of the process in error messages.
        module: module that it runs, which calls :func:`rlcore_simulation.serving.serve_pipe`.
        python: interpreter, or folder of a virtual environment; None: this interpreter.
        packages: packages that are linked for another interpreter, beside rlcore and this library.
        descriptors: file descriptors that it inherits, and gets as arguments.
        variables: environment variables that replace those of this process.
        timeout: seconds for each read and write on the pipe.
        output: file descriptor for what it prints; None: where this process prints.

    Raises:
        ConfigError: a package can't be linked.
        AssetError: the interpreter can't be started.
    """

    def __init__(
        self,
        name: str,
        module: str,
        *,
        python: str | None,
        packages: Iterable[str],
        descriptors: Sequence[int] = (),
        variables: Mapping[str, str],
        timeout: float,
        output: int | None = None,
    ) -> None:
        self._deadline = 0.0
        self._modules = None if python is None else _links(packages)
        path = [] if self._modules is None else [self._modules.name]
        ours, theirs = Pipe()
        limit(ours, timeout)
        self.pipe: Connection | None = ours
        inherited = (theirs.fileno(), *descriptors)
        command = interpreters.command(module, *map(str, inherited), python=python, path=path)
        # the process finds modules where this one does, or in its own environment and on `path`
        environment = interpreters.environment(None if python is None else path)
        try:
            self._process = subprocess.Popen(
                command,
                pass_fds=inherited,
                env={**environment, **variables},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        except OSError as error:  # the interpreter was removed since its versions were read
            if self._modules is not None:
                self._modules.cleanup()
            raise AssetError(f"{name}: {command[0]}: {error.strerror}") from None
        finally:
            theirs.close()

    @property
    def pid(self) -> int:
        return self._process.pid

    def tell(self, message: bytes) -> None:
        """Send a message.

        Errors are ignored here: if the process is dead or reads nothing, :meth:`answer` raises,
        after it has read an answer that may still be in the pipe.
        """
        if self.pipe is not None:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError, BlockingIOError):
                self.pipe.send_bytes(message)

    def ready(self, timeout: float) -> bool:
        """Check, for up to `timeout` seconds, whether an answer has come or the process is dead."""
        if self.pipe is None:
            return True
        dead = self._process.poll() is not None
        return self.pipe.poll(0.0 if dead else timeout) or dead

    def answer(self, deadline: float) -> Message:
        """Wait for the next message of the process, and return it.

        Args:
            deadline: time of :func:`time.monotonic` until which it must have come.

        Raises:
            EOFError, ConnectionError: the process is dead.
            TimeoutError, BlockingIOError: the message, or the rest of it, did not come in time.
            WireError: the message is invalid.
        """
        if self.pipe is None:
            raise EOFError
        while not self.pipe.poll(min(LOOK_INTERVAL, max(0.0, deadline - time.monotonic()))):
            if self._process.poll() is not None and not self.pipe.poll():
                raise EOFError
            if time.monotonic() >= deadline:
                raise TimeoutError
        return receive(self.pipe)

    def hang_up(self) -> None:
        """Close the pipe, so that the process ends by itself; :meth:`close` waits for its end."""
        if self.pipe is not None:
            self.pipe.close()
            self.pipe = None
            self._deadline = time.monotonic() + STOP_GRACE

    def close(self) -> None:
        """End the process, and kill it if it does not end by itself; safe to call twice."""
        self.hang_up()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(max(0.0, self._deadline - time.monotonic()))
        self.kill()
        self._process.wait()
        if self._modules is not None:
            self._modules.cleanup()
            self._modules = None

    def kill(self) -> None:
        """Kill the process and its child processes."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def cause_of_death(self) -> str:
        try:
            code = self._process.wait(STOP_GRACE)
        except subprocess.TimeoutExpired:
            return "it has closed its pipe"
        return f"killed by signal {-code}" if code < 0 else f"exit code {code}"


def _links(packages: Iterable[str]) -> TemporaryDirectory[str]:
    """Return a new folder with links to packages for another interpreter."""
    folder = TemporaryDirectory(prefix="rlcore-modules-", ignore_cleanup_errors=True)
    try:
        link_modules(Path(folder.name), packages)
    except BaseException:
        folder.cleanup()
        raise
    return folder


def limit(pipe: Connection, seconds: float) -> None:
    """Set a timeout in seconds for each read and write on a pipe.

    Without it, this process would wait forever for a peer that reads nothing or stops in the middle
    of a message.
    """
    timeout = struct.pack("@ll", int(seconds), int(seconds % 1 * 1e6))
    with socket.socket(fileno=os.dup(pipe.fileno())) as end:
        end.setblocking(True)  # even if socket.setdefaulttimeout was called in this process
        for option in (socket.SO_SNDTIMEO, socket.SO_RCVTIMEO):
            end.setsockopt(socket.SOL_SOCKET, option, timeout)
