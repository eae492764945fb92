"""Stop a run on a signal: after the current step at the first one, at once at the second."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable
from types import FrameType

from rlcore.process import signals, watchdog


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
        if signals.in_main_thread():
            self._held.enter_context(watchdog.defer_first_signal())
            by = dict.fromkeys(signals.not_ignored(), self._note)
            self._held.enter_context(signals.handlers(by))
        return self

    def __exit__(self, *exception: object) -> None:
        self._held.close()

    def _note(self, number: int, frame: FrameType | None) -> None:
        signals.remember(number)
        if self._received is not None:
            signals.raise_for(number, frame)
        self._received = signal.Signals(number)
        self._tell(
            f"{self._received.name}: stopping after this step, with a checkpoint; "
            "once more to stop at once"
        )
