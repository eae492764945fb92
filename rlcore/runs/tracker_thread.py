"""Call a tracker in a separate thread, so that a hanging network does not stop training.

Calls are made in order. A thread whose call does not return is abandoned; as a daemon thread it
ends with the process.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping

from rlcore.contracts.protocols import Tracker

END = "its end"


class TrackerThread:
    """A thread that builds a tracker and makes all calls to it.

    Args:
        name: name of the tracker.
        make: builds the tracker; called in the thread.
        patience: timeout of a call in seconds.
    """

    def __init__(self, name: str, make: Callable[[], Tracker], patience: float) -> None:
        self.name = name
        self._patience = patience
        self._calls: queue.SimpleQueue[tuple[str, Callable[[Tracker], None]]] = queue.SimpleQueue()
        self._current: tuple[str, float] | None = None  # name and start time of the current call
        self._failure: tuple[str, BaseException] | None = None
        self._started = threading.Event()
        self._thread = threading.Thread(
            target=self._run, args=(make,), name=f"tracker {name}", daemon=True
        )
        self._thread.start()

    def started(self) -> BaseException | None:
        """Wait until the tracker is built; return the error that this raised, or None.

        Raises:
            TimeoutError: building takes longer than `patience`.
        """
        if not self._started.wait(self._patience):
            raise TimeoutError
        return None if self._failure is None else self._failure[1]

    def disabled_reason(self) -> str | None:
        """Return why the tracker should be disabled, or None.

        It should be if a call failed, or if the current call has taken longer than `patience`.
        """
        if self._failure is not None:
            return "failed at {}: {!r}".format(*self._failure)
        current = self._current
        if current is not None and time.monotonic() - current[1] > self._patience:
            limit = f"{self._patience:g} s (cluster.timeouts.tracker)"
            return f"has been at {current[0]} for more than {limit}"
        return None

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        """Queue metrics for the tracker; returns at once."""
        copy = dict(metrics)  # a tracker may change the mapping, which others also get
        self._calls.put((f"step {step}", lambda tracker: tracker.log(copy, step)))

    def finish(self) -> None:
        """Queue a call that closes the tracker after all earlier calls; returns at once."""
        self._calls.put((END, lambda tracker: tracker.close()))

    def finished(self, patience: float) -> str | None:
        """Wait until the tracker is closed, after :meth:`finish`.

        Args:
            patience: timeout in seconds.

        Returns:
            What went wrong, the timeout included; None if nothing did.
        """
        self._thread.join(max(patience, 0.0))
        if self._failure is not None:
            return "{1!r} at {0}".format(*self._failure)
        return "it takes too long (cluster.timeouts.tracker)" if self._thread.is_alive() else None

    def _run(self, make: Callable[[], Tracker]) -> None:
        name = "start"
        try:
            tracker = make()
            self._started.set()
            while name != END:
                name, call = self._calls.get()
                self._current = (name, time.monotonic())
                call(tracker)
                self._current = None
        except BaseException as error:  # also SystemExit: one tracker must not end the run
            self._failure = (name, error)
        self._started.set()
