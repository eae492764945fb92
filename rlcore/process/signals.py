"""Handle the signals that end a run: what each one raises, its message and its exit code.

SIGHUP (the terminal was closed) is treated as SIGTERM, unless it is ignored from the start
(`nohup`). All handlers of rlcore are set here, in the main thread, the only one that gets signals.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from types import FrameType

from rlcore.contracts.errors import Terminated

Handler = Callable[[int, FrameType | None], None] | signal.Handlers
HANGUP: list[int] = [signal.SIGHUP] if hasattr(signal, "SIGHUP") else []  # Windows has none
ENDS: dict[int, type[KeyboardInterrupt]] = {
    signal.SIGINT: KeyboardInterrupt,
    **dict.fromkeys([signal.SIGTERM, *HANGUP], Terminated),
}
_last: list[int] = []


def install_handlers() -> None:
    """Make these signals raise from now on. One that is ignored stays so, but for SIGTERM."""
    _last.clear()
    if in_main_thread():
        for number in {*not_ignored(), signal.SIGTERM}:
            signal.signal(number, raise_for)


@contextlib.contextmanager
def handlers(by: Mapping[int, Handler]) -> Iterator[None]:
    """Put these handlers in place inside; afterwards all that end a run are handled as before."""
    if not in_main_thread():
        yield
        return
    former = {number: signal.getsignal(number) for number in ENDS}
    for number, handler in by.items():
        signal.signal(number, handler)
    try:
        yield
    finally:
        for number, before in former.items():
            signal.signal(number, before or signal.SIG_DFL)


def not_ignored() -> list[int]:
    """The signals that end this process now."""
    return [number for number in ENDS if signal.getsignal(number) is not signal.SIG_IGN]


def in_main_thread() -> bool:
    """Whether this thread is the one that gets signals."""
    return threading.current_thread() is threading.main_thread()


def raise_for(number: int, frame: FrameType | None) -> None:
    """The handler: remembers the signal and raises what it stands for."""
    remember(number)
    raise ENDS[number]


def remember(number: int) -> None:
    """Record that the signal has come."""
    _last[:] = [number]


def number_of(error: KeyboardInterrupt) -> int:
    """The signal behind it. A library in between may have raised a KeyboardInterrupt of its own
    in place of our handlers, so the last signal that came counts."""
    if _last:
        return _last[0]
    return signal.SIGTERM if isinstance(error, Terminated) else signal.SIGINT


def final_message(number: int) -> str:
    """The command's last line, e.g. "rlcore: terminated"."""
    return "rlcore: interrupted" if number == signal.SIGINT else "rlcore: terminated"


def exit_code(number: int) -> int:
    """The shell's convention."""
    return 128 + number
