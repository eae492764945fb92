"""Signals that ask a run to end: the first is granted at the next good moment, a second at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

from rlcore.errors import Terminated

ENDS = {signal.SIGINT: KeyboardInterrupt, signal.SIGTERM: Terminated}


class StopSignals:
    """Holds back SIGINT and SIGTERM while it is entered; the loop looks at `requested`.

    A cluster's scheduler sends SIGTERM and waits a while, a user presses Ctrl-C: either way the
    work since the last checkpoint need not be lost. Only the main thread gets signals; entered in
    another one, it does nothing.

    Args:
        tell: called with one line for the user when a signal has come.
    """

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._received: signal.Signals | None = None
        self._former: dict[signal.Signals, Any] = {}

    @property
    def requested(self) -> bool:
        """Whether a signal has come."""
        return self._received is not None

    @property
    def interruption(self) -> BaseException:
        """What the signal that came would have raised."""
        assert self._received is not None
        return ENDS[self._received]()

    def __enter__(self) -> StopSignals:
        if threading.current_thread() is threading.main_thread():
            self._former = {number: signal.signal(number, self._note) for number in ENDS}
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._former.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self._received is not None:
            raise ENDS[signal.Signals(number)]
        self._received = signal.Signals(number)
        self._tell(
            f"{self._received.name}: stopping after this step, with a checkpoint; "
            "once more to stop at once"
        )
