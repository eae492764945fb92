"""Call a tracker in a thread of its own, so that a hanging network does not stop training.

Calls are made in order. A thread whose call does not return is abandoned; it ends with the
process.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping

from rlcore.contracts.protocols import Tracker

QUEUE_SIZE = 1000  # calls that may wait; a tracker that stays behind further is off


class TrackerThread:
    """Makes a tracker and calls it.

    Args:
        name: of the tracker.
        make: builds it, on the thread.
        patience: seconds that a call may take, and that room in the queue is waited for in all.
    """

    def __init__(self, name: str, make: Callable[[], Tracker], patience: float) -> None:
        self.name = name
        self._patience = patience
        self._calls: queue.Queue[tuple[str, Callable[[Tracker], None]]] = queue.Queue(QUEUE_SIZE)
        self._at: tuple[str, float] | None = None
        self._failure: tuple[str, BaseException] | None = None
        self._started, self._closed = threading.Event(), False
        self._waited = 0.0  # seconds, for room
        self._thread = threading.Thread(
            target=self._run, args=(make,), name=f"tracker {name}", daemon=True
        )
        self._thread.start()

    def started(self) -> BaseException | None:
        """Wait until it is built; what that raised.

        Raises:
            TimeoutError: it takes too long.
        """
        if not self._started.wait(self._patience):
            raise TimeoutError
        return None if self._failure is None else self._failure[1]

    def log(self, metrics: Mapping[str, float], step: int) -> str | None:
        """Let the tracker know, soon; returns why it should get no more, if it should not."""
        own = dict(metrics)  # another one may change its copy
        return self._ask(f"step {step}", lambda tracker: tracker.log(own, step))

    def finish(self) -> str | None:
        """As :meth:`log`: close it after all earlier calls."""
        return self._ask("its end", self._close)

    def finished(self, patience: float) -> str | None:
        """Wait for that; what went wrong."""
        self._thread.join(max(patience, 0.0))
        if self._failure is not None:
            return "{1!r} at {0}".format(*self._failure)
        return "it takes too long (cluster.timeouts.tracker)" if self._thread.is_alive() else None

    def _ask(self, name: str, call: Callable[[Tracker], None]) -> str | None:
        """Queue a call, unless one failed, has taken too long, or too many wait. A run logs
        thousands of values at once after supervised training, so room is waited for."""
        if self._failure is not None:
            return "failed at {}: {!r}".format(*self._failure)
        at, now = self._at, time.monotonic()
        if at is not None and now - at[1] > self._patience:
            limit = f"{self._patience:g} s (cluster.timeouts.tracker)"
            return f"has been at {at[0]} for more than {limit}"
        try:
            self._calls.put((name, call), timeout=max(self._patience - self._waited, 0.0))
        except queue.Full:
            return f"is {QUEUE_SIZE} calls behind"
        self._waited += time.monotonic() - now
        return None

    def _close(self, tracker: Tracker) -> None:
        tracker.close()
        self._closed = True

    def _run(self, make: Callable[[], Tracker]) -> None:
        name = "start"
        try:
            tracker = make()
            self._started.set()
            while not self._closed:
                name, call = self._calls.get()
                self._at = (name, time.monotonic())
                call(tracker)
                self._at = None
        except BaseException as error:  # whatever it is, SystemExit too: it is one tracker's
            self._failure = (name, error)
        self._started.set()
