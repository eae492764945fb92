"""A tracker on a thread of its own: a network that hangs is not waited for by a training.

Calls are made in their order. The thread is left alone where a call does not come back; it ends
with the process.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping

from rlcore.protocols import Tracker

QUEUE_SIZE = 1000  # calls that may wait; a tracker that stays behind further is off
LOOK = 0.002  # seconds between looks whether there is room


class TrackerThread:
    """Makes a tracker and calls it.

    Args:
        name: of the tracker.
        make: builds it, on the thread.
    """

    def __init__(self, name: str, make: Callable[[], Tracker]) -> None:
        self.name = name
        self._tasks: queue.Queue[tuple[str, Callable[[], None]] | None] = queue.Queue()
        self._at: tuple[str, float] | None = None
        self._failure: tuple[str, BaseException] | None = None
        self._thread = threading.Thread(target=self._run, name=f"tracker {name}", daemon=True)
        self._tracker: Tracker | None = None
        self._waited = 0.0  # seconds, for room

        def build() -> None:
            self._tracker = make()

        self._tasks.put(("start", build))
        self._thread.start()

    def started(self, patience: float) -> BaseException | None:
        """Wait until it is built; what that raised.

        Raises:
            TimeoutError: it takes longer than `patience` seconds.
        """
        deadline = time.monotonic() + patience
        while self._tracker is None and self._failure is None:
            if time.monotonic() > deadline:
                raise TimeoutError
            time.sleep(0.001)
        return None if self._failure is None else self._failure[1]

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        """Let the tracker know, soon. To be asked for :meth:`trouble` before."""
        tracker, own = self._tracker, dict(metrics)  # another one may change its copy
        assert tracker is not None
        self._tasks.put((f"step {step}", lambda: tracker.log(own, step)))

    def trouble(self, patience: float) -> str | None:
        """Why it should get no more: a call failed, has taken longer than `patience` seconds,
        or too many wait. A run logs thousands of values at once after supervised training, so
        room is waited for, in all its life as long as one call may take."""
        while self._failure is None:
            at, now = self._at, time.monotonic()
            if at is not None and now - at[1] > patience:
                return (
                    f"has been at {at[0]} for more than {patience:g} s (cluster.timeouts.tracker)"
                )
            if self._tasks.qsize() < QUEUE_SIZE:
                return None
            if self._waited > patience:
                return f"is {QUEUE_SIZE} calls behind"
            time.sleep(LOOK)
            self._waited += time.monotonic() - now
        return "failed at {}: {!r}".format(*self._failure)

    def finish(self) -> None:
        """Ask it to close after all it was told."""
        tracker = self._tracker
        assert tracker is not None
        self._tasks.put(("its end", tracker.close))
        self._tasks.put(None)

    def finished(self, patience: float) -> str | None:
        """Wait for that; what went wrong."""
        self._thread.join(max(patience, 0.0))
        if self._failure is not None:
            return "{1!r} at {0}".format(*self._failure)
        return "it takes too long (cluster.timeouts.tracker)" if self._thread.is_alive() else None

    def _run(self) -> None:
        while (task := self._tasks.get()) is not None:
            self._at = (task[0], time.monotonic())
            try:
                task[1]()
            except BaseException as error:  # whatever it is, SystemExit too: it is one tracker's
                self._failure = (task[0], error)
                return
            self._at = None
