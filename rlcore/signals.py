"""Signals that end a run, and how each is reported: what it raises, its words, its exit code.

SIGHUP (the terminal was closed) is as SIGTERM, unless it is ignored from the start (`nohup`).
"""

from __future__ import annotations

import signal
import threading
from types import FrameType

from rlcore.errors import Terminated

ENDS: dict[int, type[KeyboardInterrupt]] = {
    signal.SIGINT: KeyboardInterrupt,
    signal.SIGTERM: Terminated,
}
if "SIGHUP" in vars(signal):  # not everywhere
    ENDS[signal.SIGHUP] = Terminated
_last: list[int] = []


def heed() -> None:
    """From now on these signals raise; for the main thread, the only one that gets any. One that
    is ignored stays so, but for SIGTERM."""
    _last.clear()
    if threading.current_thread() is threading.main_thread():
        for number in ENDS:
            if number == signal.SIGTERM or signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, end)


def end(number: int, frame: FrameType | None) -> None:
    """The handler: remembers the signal and raises what it stands for."""
    remember(number)
    raise ENDS[number]


def remember(number: int) -> None:
    """Note that the signal has come."""
    _last[:] = [number]


def number_of(error: KeyboardInterrupt) -> int:
    """The signal behind it. A library in between may have raised a KeyboardInterrupt of its own
    in place of our handlers, so the last signal that came counts."""
    if _last:
        return _last[0]
    return signal.SIGTERM if isinstance(error, Terminated) else signal.SIGINT


def last_words(number: int) -> str:
    """What the command says in the end, e.g. "rlcore: terminated"."""
    return "rlcore: interrupted" if number == signal.SIGINT else "rlcore: terminated"


def exit_code(number: int) -> int:
    """The shell's convention."""
    return 128 + number
