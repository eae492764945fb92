"""Stop a run on a signal: after the current step at the first signal, at once at the second."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable
from types import FrameType

from rlcore.utils import signals, watchdog


class StopSignals:
    """Context manager that turns the first SIGINT, SIGTERM or SIGHUP into a request to stop.

    The training loop checks `requested` after each step, so that it can write a checkpoint before
    it stops. The signal may come from a cluster's scheduler, which waits some time after SIGTERM,
    from Ctrl-C or from a closed terminal. A second signal raises at once. Ignored signals (`nohup`)
    remain ignored. In another thread than the main one the context does nothing.

    Args:
        tell: called with one line for the user at each signal.
        at_once: line for the second one, e.g. how to go on.
    """

    def __init__(self, tell: Callable[[str], None], at_once: str) -> None:
        self._tell = tell
        self._at_once = at_once
        self._received: signal.Signals | None = None
        self._held = contextlib.ExitStack()

    @property
    def requested(self) -> bool:
        """Return whether a signal was received."""
        return self._received is not None

    @property
    def interruption(self) -> BaseException:
        """Exception that the received signal raises outside this context."""
        assert self._received is not None
        return signals.ENDING_SIGNALS[self._received]()

    def __enter__(self) -> StopSignals:
        if signals.in_main_thread():
            self._held.enter_context(watchdog.defer_first_signal())
            handlers = dict.fromkeys(signals.not_ignored(), self._on_signal)
            self._held.enter_context(signals.handle_signals(handlers))
        return self

    def __exit__(self, *exception: object) -> None:
        self._held.close()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        signals.remember(number)
        if self._received is not None:
            self._tell(f"{signal.Signals(number).name}: stopped at once; {self._at_once}")
            signals.raise_for(number, frame)
        self._received = signal.Signals(number)
        self._tell(
            f"{self._received.name}: stopping after this step, with a checkpoint; "
            "once more to stop at once"
        )
