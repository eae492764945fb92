"""Handle the signals that end a run: SIGINT, SIGTERM and SIGHUP.

This module defines the exception that each signal raises, its message and its exit code. SIGHUP
(the terminal was closed) is handled like SIGTERM, unless the process was started with SIGHUP
ignored (`nohup`). rlcore sets signal handlers only here, and only in the main thread, because
Python runs no handler in another thread.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from types import FrameType

from rlcore.contracts.errors import Terminated

Handler = Callable[[int, FrameType | None], None] | signal.Handlers
HANGUP: list[int] = [signal.SIGHUP] if hasattr(signal, "SIGHUP") else []  # not defined on Windows
ENDING_SIGNALS: dict[int, type[KeyboardInterrupt]] = {
    signal.SIGINT: KeyboardInterrupt,
    **dict.fromkeys([signal.SIGTERM, *HANGUP], Terminated),
}
_last: list[int] = []


def install_handlers() -> None:
    """Install handlers by which the signals in `ENDING_SIGNALS` raise their exceptions.

    An ignored signal remains ignored, except SIGTERM.
    """
    _last.clear()
    if in_main_thread():
        for number in {*not_ignored(), signal.SIGTERM}:
            signal.signal(number, raise_for)


@contextlib.contextmanager
def handle_signals(by: Mapping[int, Handler]) -> Iterator[None]:
    """Install handlers within this context, and restore the previous ones afterwards.

    In another thread than the main one the context does nothing.

    Args:
        by: handlers by signal number.
    """
    if not in_main_thread():
        yield
        return
    previous = {number: signal.getsignal(number) for number in ENDING_SIGNALS}
    for number, handler in by.items():
        signal.signal(number, handler)
    try:
        yield
    finally:
        for number, previous_handler in previous.items():
            signal.signal(number, previous_handler or signal.SIG_DFL)


def not_ignored() -> list[int]:
    """Return the signals in `ENDING_SIGNALS` that this process does not ignore."""
    return [number for number in ENDING_SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]


def in_main_thread() -> bool:
    """Check whether this is the main thread, in which Python runs signal handlers."""
    return threading.current_thread() is threading.main_thread()


def raise_for(number: int, frame: FrameType | None) -> None:
    """Handle a signal: record it, and raise its exception from `ENDING_SIGNALS`."""
    remember(number)
    raise ENDING_SIGNALS[number]


def remember(number: int) -> None:
    """Record the signal as the last one received."""
    _last[:] = [number]


def signal_number(error: KeyboardInterrupt) -> int:
    """Return the number of the signal that caused an exception.

    The last recorded signal takes precedence over the exception's class, because a library may
    raise a plain KeyboardInterrupt for any signal.
    """
    if _last:
        return _last[0]
    return signal.SIGTERM if isinstance(error, Terminated) else signal.SIGINT


def final_message(number: int) -> str:
    """Return the last line that a command prints after a signal, e.g. "rlcore: terminated"."""
    return "rlcore: interrupted" if number == signal.SIGINT else "rlcore: terminated"


def exit_code(number: int) -> int:
    """Return the exit code of a process that a signal ended, by the shell's convention."""
    return 128 + number
