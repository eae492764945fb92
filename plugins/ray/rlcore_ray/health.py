"""Check that Ray itself works: its processes on this machine, and the head node of its cluster.

The checks run during every wait for a worker, because without Ray's processes no worker can answer,
and a call to Ray may never return.
"""

from __future__ import annotations

import contextlib
import socket
import sys
import time
from collections.abc import Iterator

import psutil
import ray

from rlcore.contracts.errors import UserError, WorkerError
from rlcore.utils import watchdog

NAMES = ("gcs_server", "raylet")
KEY = "(cluster.timeouts.ray)"
HEAD_SECONDS = 30.0  # after 60 s without an answer from the head, Ray ends this process
CHECK_SECONDS = 5.0  # seconds between two connections to a head on another machine
RESUME_HINT = "the checkpoints are whole: rlcore resume RUN continues"


class ClusterLost(WorkerError):
    """Ray itself is gone or hangs, so that no further call to it is possible."""


class RayHealth:
    """Monitor of Ray's processes.

    It checks the processes of the cluster that this process started, or those of a joined cluster
    on this machine. If the head of a joined cluster is on another machine, it also checks that the
    head accepts connections.

    Args:
        patience: seconds in which a stopped process must continue, and in which Ray must answer
            (`timeouts.ray`).
    """

    def __init__(self, patience: float) -> None:
        self.patience = patience
        self._stopped: watchdog.Countdown | None = None
        self._processes: dict[str, psutil.Process] = {}
        for child in psutil.Process().children():
            with contextlib.suppress(psutil.Error):
                if child.name() in NAMES:
                    self._watch(child)
                    watchdog.also_kill(child.children(recursive=True))  # the raylet's agents
        self._head: _Head | None = None
        if not self._processes and ray.is_initialized():
            context = ray.get_runtime_context()
            for process in _ray_processes(context.get_node_id()):
                self._watch(process)
            if not any(name.startswith("gcs") for name in self._processes):
                self._head = _Head(context.gcs_address, min(patience, HEAD_SECONDS))

    def _watch(self, process: psutil.Process) -> None:
        self._processes[f"{process.name()} (pid {process.pid})"] = process

    def trouble(self) -> str | None:
        """Describe what is wrong at present; None if no problem is known."""
        return self._dead() or self._suspended()

    def _dead(self) -> str | None:
        name = self._first_in(psutil.STATUS_DEAD, psutil.STATUS_ZOMBIE)
        if name is not None:
            return f"Ray's {name} died (killed, or out of memory?)"
        return None if self._head is None else self._head.silence()

    def _suspended(self) -> str | None:
        name = self._first_in(psutil.STATUS_STOPPED)
        return None if name is None else f"Ray's {name} is stopped (SIGSTOP?)"

    def _first_in(self, *states: str) -> str | None:
        """Return the first process in one of these states; one that does not exist is dead."""
        for name, process in self._processes.items():
            try:
                status = process.status()
            except psutil.Error:
                status = psutil.STATUS_DEAD
            if status in states:
                return name
        return None

    def check(self) -> None:
        """Check that Ray's processes work.

        Raises:
            ClusterLost: a process died, was stopped for more than `patience` seconds, or the head
                did not answer for too long.
        """
        dead = self._dead()
        if dead is not None:
            raise ClusterLost(dead, hint=RESUME_HINT)
        suspended = self._suspended()
        if suspended is None:
            self._stopped = None
            return
        self._stopped = self._stopped or watchdog.Countdown(self.patience)
        if self._stopped.expired():
            raise ClusterLost(f"{suspended} for {self.patience:g} s {KEY}", hint=RESUME_HINT)

    @contextlib.contextmanager
    def answering(self, doing: str, seconds: float = 0.0) -> Iterator[None]:
        """Limit the time of calls to Ray within this context to `seconds` + `patience`.

        If a call takes longer, the watchdog ends the process. It shows the UserError that is being
        handled, if there is one, else ClusterLost.

        Args:
            doing: what Ray is asked for, for the error message.
            seconds: expected duration of the calls.
        """
        pending = sys.exc_info()[1]

        def late() -> UserError:
            if isinstance(pending, UserError):
                return pending
            why = self.trouble() or "its processes hang, or can't be reached"
            text = f"Ray did not come back from {doing!r} within {self.patience:g} s {KEY}: {why}"
            return ClusterLost(text, hint=RESUME_HINT)

        with watchdog.time_limit(late, seconds + self.patience):
            yield


class _Head:
    """Monitor of a cluster's head on another machine.

    Args:
        address: `host:port`.
        patience: seconds in which the head must answer again.
    """

    def __init__(self, address: str, patience: float) -> None:
        self._address = address
        self._patience = patience
        self._silent: watchdog.Countdown | None = None
        self._checked = time.monotonic()

    def silence(self) -> str | None:
        """Return an error message if the head has not answered for `patience` seconds, else None.

        The head is tried every :data:`CHECK_SECONDS`, and at each call while it is silent.
        """
        if self._silent is None and time.monotonic() - self._checked < CHECK_SECONDS:
            return None
        self._checked = time.monotonic()
        host, _, port = self._address.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=1.0).close()
        except OSError as error:
            self._silent = self._silent or watchdog.Countdown(self._patience)
            if not self._silent.expired():
                return None
            return (
                f"nobody has answered at the head of the cluster ({self._address}) for "
                f"{self._patience:g} s ({error})"
            )
        self._silent = None
        return None


def _ray_processes(node: str) -> list[psutil.Process]:
    """Return the raylet of a node, and the gcs of its cluster, if they run on this machine.

    Args:
        node: Ray's id of the node.
    """
    commands: dict[psutil.Process, list[str]] = {}
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.name() in NAMES:
                commands[process] = process.cmdline()
    raylets = [process for process, words in commands.items() if f"--node_id={node}" in words]
    sessions = {
        word
        for raylet in raylets
        for word in commands[raylet]
        if word.startswith("--session-name=")
    }
    heads = [
        process
        for process, words in commands.items()
        if process.name() == "gcs_server" and sessions.intersection(words)
    ]
    return [*raylets, *heads]
