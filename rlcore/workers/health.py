"""Whether Ray itself still works: the processes behind it that this one has started.

Who waits for a worker asks here too, since a worker can't answer once these are gone, and a call of
Ray's may then never come back.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

import psutil

from rlcore import watchdog
from rlcore.errors import UserError, WorkerError

NAMES = ("gcs_server", "raylet")
KEY = "(cluster.timeouts.ray)"
GOES_ON = "the checkpoints are whole: rlcore resume RUN goes on"


class ClusterLost(WorkerError):
    """Ray itself is gone or hangs: nothing of it can be asked any more."""


class RayHealth:
    """Looks after Ray's processes; of a cluster that was joined, it has none.

    Args:
        patience: seconds for a stopped one to go on, and for Ray to answer (`timeouts.ray`).
    """

    def __init__(self, patience: float) -> None:
        self.patience = patience
        self._stopped: watchdog.Countdown | None = None
        self._processes: dict[str, psutil.Process] = {}
        for child in psutil.Process().children():
            with contextlib.suppress(psutil.Error):
                if child.name() in NAMES:
                    self._processes[f"{child.name()} (pid {child.pid})"] = child
                    watchdog.know(child.children(recursive=True))  # the raylet's agents

    def trouble(self) -> str | None:
        """What is wrong right now, None if nothing is known to be."""
        return self._dead() or self._asleep()

    def _dead(self) -> str | None:
        found = self._first(psutil.STATUS_DEAD, psutil.STATUS_ZOMBIE)
        return None if found is None else f"Ray's {found} died (killed, or out of memory?)"

    def _asleep(self) -> str | None:
        found = self._first(psutil.STATUS_STOPPED)
        return None if found is None else f"Ray's {found} is stopped (SIGSTOP?)"

    def _first(self, *states: str) -> str | None:
        """The first process that is in one of these states; one that is gone is dead."""
        for name, process in self._processes.items():
            try:
                status = process.status()
            except psutil.Error:
                status = psutil.STATUS_DEAD
            if status in states:
                return name
        return None

    def check(self) -> None:
        """Raise once Ray can't work any more.

        Raises:
            ClusterLost: a process died, or has been stopped for too long.
        """
        dead, asleep = self._dead(), self._asleep()
        if dead is not None:
            raise ClusterLost(dead, hint=GOES_ON)
        if asleep is None:
            self._stopped = None
            return
        self._stopped = self._stopped or watchdog.Countdown(self.patience)
        if self._stopped.over():
            raise ClusterLost(f"{asleep} for {self.patience:g} s {KEY}", hint=GOES_ON)

    @contextlib.contextmanager
    def answering(self, doing: str, seconds: float = 0.0) -> Iterator[None]:
        """What is inside asks Ray for something that takes `seconds`, and Ray has to come back:
        else the watchdog ends the process with an error: that which is under way, if any."""
        pending = sys.exc_info()[1]

        def late() -> UserError:
            if isinstance(pending, UserError):
                return pending
            why = self.trouble() or "its processes hang, or can't be reached"
            text = f"Ray did not come back from {doing!r} within {self.patience:g} s {KEY}: {why}"
            return ClusterLost(text, hint=GOES_ON)

        with watchdog.limit(late, seconds + self.patience):
            yield
