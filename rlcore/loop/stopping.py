"""Signals that ask a run to end: the first is granted at the next good moment, a second at once."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

from rlcore import signals, watchdog


class StopSignals:
    """Holds back SIGINT, SIGTERM and SIGHUP while it is entered; the loop looks at `requested`.

    A cluster's scheduler sends SIGTERM and waits a while, a user presses Ctrl-C, a terminal is
    closed: the work since the last checkpoint need not be lost. What is ignored (`nohup`) stays so.
    Only the main thread gets signals; entered in another one, it does nothing.

    Args:
        tell: called with one line for the user when a signal has come.
    """

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._received: signal.Signals | None = None
        self._former: dict[int, Any] = {}
        self._held = contextlib.ExitStack()

    @property
    def requested(self) -> bool:
        """Whether a signal has come."""
        return self._received is not None

    @property
    def interruption(self) -> BaseException:
        """What the signal that came would have raised."""
        assert self._received is not None
        return signals.ENDS[self._received]()

    def __enter__(self) -> StopSignals:
        if threading.current_thread() is threading.main_thread():
            self._held.enter_context(watchdog.hold())
            self._former = {
                number: signal.signal(number, self._note)
                for number in signals.ENDS
                if signal.getsignal(number) is not signal.SIG_IGN
            }
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._former.items():
            signal.signal(number, handler)
        self._held.close()

    def _note(self, number: int, frame: FrameType | None) -> None:
        signals.remember(number)
        if self._received is not None:
            signals.end(number, frame)
        self._received = signal.Signals(number)
        self._tell(
            f"{self._received.name}: stopping after this step, with a checkpoint; "
            "once more to stop at once"
        )
