"""End the process from a thread when its main thread hangs.

A call into a C++ library that never returns runs no signal handler and no Python timeout. So a
thread watches: it knows the current operation and its time limit, it receives signals by itself,
and it ends the process with one error if the main thread can't.

Only the command line owns its process. Without :func:`guard`, :func:`limit` and
:func:`defer_first_signal` do nothing. Knows no Ray and no worker.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlcore.contracts.errors import UserError
from rlcore.process import signals
from rlcore.terminal.text import plain

if TYPE_CHECKING:
    import psutil

MARK = "RLCORE_PROCESS"  # in the environment of every process that a guarded one starts
STACK_FRAMES = 5  # innermost ones of the main thread, in an error about what it waits for
TICK = 0.5  # seconds between two looks
FLUSH_SECONDS = 1.0
Cause = UserError | Callable[[], UserError]
TRACKER = "resource_tracker"  # Python's own, which frees shared memory when all others are gone


class Countdown:
    """Seconds that are left, counted only between checks: a process that was suspended and
    resumed (Ctrl-Z, a laptop's lid) was not waiting meanwhile."""

    def __init__(self, seconds: float) -> None:
        self.left = seconds
        self._seen = time.monotonic()

    def expired(self) -> bool:
        """Whether the time is up; to be asked every second or more often."""
        now = time.monotonic()
        self.left -= min(now - self._seen, 2 * TICK)
        self._seen = now
        return self.left <= 0


@dataclass(eq=False)
class _Limit:
    error: Cause
    countdown: Countdown
    place: bool


class Watchdog:
    """See :func:`guard`.

    Attributes:
        limits: the current waits, and their time limits.
        spare: signals that the main thread handles in its own time.
    """

    def __init__(self, stop_seconds: float) -> None:
        self._stop_seconds = stop_seconds
        self.limits: list[_Limit] = []
        self.spare = 0
        self._received: list[int] = []
        self._end_in: Countdown | None = None
        self._main = threading.main_thread().ident or 0
        self._read, self._write = os.pipe()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="rlcore-watchdog", daemon=True)

    def start(self) -> None:
        os.set_blocking(self._write, False)
        self._former = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        self._thread.start()

    def stop(self) -> None:
        self._done.set()
        signal.set_wakeup_fd(self._former)
        os.close(self._write)  # wakes the thread
        self._thread.join()
        os.close(self._read)

    # -- the thread -------------------------------------------------------------------------

    def _watch(self) -> None:
        while not self._done.is_set():
            ready, _, _ = select.select([self._read], [], [], TICK)
            if ready and not self._done.is_set():
                for number in os.read(self._read, 64):
                    self._note(number)
            for one in [] if self._debugged() else list(self.limits):
                if one.countdown.expired():
                    self._end_with(one)
            if self._end_in is not None and self._end_in.expired():
                number = self._received[-1]
                _end(f"{signals.final_message(number)}\n", signals.exit_code(number))

    def _debugged(self) -> bool:
        """Whether a debugger holds the main thread, which then stands still as long as a person
        reads: pdb traces its frames, and those of editors are pydevd."""
        stack = traceback.walk_stack(sys._current_frames()[self._main])
        return "pydevd" in sys.modules or any(frame.f_trace for frame, _ in stack)

    def _note(self, number: int) -> None:
        """A signal: the first may be granted later, from then on the time runs."""
        if number not in signals.ENDS:
            return
        self._received.append(number)
        if self.spare:
            self.spare -= 1
        elif self._end_in is None:
            self._end_in = Countdown(self._stop_seconds)

    def _end_with(self, one: _Limit) -> None:
        error = one.error if isinstance(one.error, UserError) else one.error()
        text = f"error: {error.message}\n"
        if one.place:
            stack = traceback.extract_stack(sys._current_frames()[self._main])[-STACK_FRAMES:]
            text += "the main thread was at:\n" + "".join(traceback.format_list(stack))
        if error.hint is not None:
            text += f"  hint: {error.hint}\n"
        _end(text, error.exit_code)


_current: Watchdog | None = None
_mark: str | None = None
_known: list[psutil.Process] = []


@contextlib.contextmanager
def guard(stop_seconds: float) -> Iterator[None]:
    """Watch the block from a thread. For the main thread of the command line, which may
    end its process; in another one it does nothing.

    A signal that asks for the end is given `stop_seconds` to be obeyed.
    """
    global _current
    if _current is not None or not signals.in_main_thread():
        yield
        return
    watchdog = Watchdog(stop_seconds)
    with mark_children():
        watchdog.start()
        _current = watchdog
        try:
            yield
        finally:
            _current = None
            watchdog.stop()


@contextlib.contextmanager
def mark_children() -> Iterator[None]:
    """Mark processes started inside, and their children, for :func:`kill_started`."""
    global _mark
    if _mark is not None:
        yield
        return
    former = os.environ.get(MARK)  # this process may have been started by a marked one
    os.environ[MARK] = _mark = os.urandom(16).hex()
    try:
        yield
    finally:
        _mark = None
        if former is None:
            os.environ.pop(MARK, None)  # a plugin may have emptied it
        else:
            os.environ[MARK] = former


@contextlib.contextmanager
def limit(error: Cause, seconds: float, *, place: bool = True) -> Iterator[None]:
    """End the process with `error` if what is inside takes longer. For calls that should have come
    back or raised by themselves long before.

    Args:
        place: say where the main thread was.
    """
    if _current is None or not signals.in_main_thread():
        yield
        return
    limits, one = _current.limits, _Limit(error, Countdown(seconds), place)
    limits.append(one)
    try:
        yield
    finally:
        limits.remove(one)


@contextlib.contextmanager
def defer_first_signal() -> Iterator[None]:
    """Let the main thread handle the first signal inside in its own time."""
    watchdog = _current
    if watchdog is not None:
        watchdog.spare = 1
    try:
        yield
    finally:
        if watchdog is not None:
            watchdog.spare = 0


def also_kill(processes: Iterable[psutil.Process]) -> None:
    """Add processes to those that :func:`kill_started` kills: some overwrite their environment,
    and the mark with it, when they give themselves a title."""
    _known[:] = [*(one for one in _known if one.is_running()), *processes]


def kill_started() -> None:
    """Kill all processes that were started while :func:`mark_children`, their children, and those
    that :func:`also_kill` added."""
    import psutil

    for process in _known:
        with contextlib.suppress(psutil.Error):
            process.kill()  # never another one of the same number
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            marked = _mark is not None and process.environ().get(MARK) == _mark
            if marked and process.pid != os.getpid() and TRACKER not in " ".join(process.cmdline()):
                process.kill()


def _end(text: str, code: int) -> None:
    """The last words, and the end at once: no handler and no other thread is waited for."""
    try:
        flush = threading.Thread(target=_flush, daemon=True)  # a writer may hang in there
        flush.start()
        flush.join(FLUSH_SECONDS)
        with contextlib.suppress(OSError):
            if os.isatty(2):
                os.write(2, b"\x1b[?25h")  # bars hide the cursor
            os.write(2, plain(text).encode())
        kill_started()
    finally:
        os._exit(code)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
