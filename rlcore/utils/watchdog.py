"""End the process from a watchdog thread when its main thread hangs.

While a call into a C++ library does not return, Python runs neither signal handlers nor timeouts in
the main thread. The watchdog thread knows the current operations and their time limits, receives
signals through a pipe, and ends the process with one error if the main thread does not respond.

Only the command line may end its process, so it alone enters :func:`guard`. Elsewhere
:func:`time_limit` and :func:`defer_first_signal` do nothing.
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
from rlcore.utils import signals
from rlcore.utils.text import strip_control

if TYPE_CHECKING:
    import psutil

MARK = "RLCORE_PROCESS"  # environment variable that identifies processes started by a guarded one
STACK_FRAMES = 5  # innermost stack frames of the main thread that an error shows
TICK = 0.5  # seconds between two checks
FLUSH_SECONDS = 1.0  # timeout for flushing the output before the process ends
Cause = UserError | Callable[[], UserError]
TRACKER = "resource_tracker"  # Python's process that frees shared memory after all others ended


class Countdown:
    """Timeout that does not count the time in which the process was suspended.

    A process is suspended by Ctrl-Z or by a closed laptop, for example. The time between two checks
    counts as 2 `TICK` at most.

    Attributes:
        left: seconds that are left.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.left = seconds
        self._seen = time.monotonic()

    def expired(self) -> bool:
        """Check whether the time is up. Call this every second or more often."""
        now = time.monotonic()
        self.left -= min(now - self._seen, 2 * TICK)
        self._seen = now
        return self.left <= 0

    def restart(self) -> None:
        """Begin again with all seconds."""
        self.left = self._seconds


@dataclass(eq=False)
class _Limit:
    """Time limit of a current operation: see :func:`time_limit`."""

    error: Cause
    countdown: Countdown


class Watchdog:
    """Thread that enforces time limits and a timeout after signals: see :func:`guard`.

    Args:
        stop_seconds: seconds in which the main thread must end the process after a signal.

    Attributes:
        limits: time limits of the current operations.
        spare: number of signals to come that start no timeout.
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
        """Start the thread, and receive signal numbers through the pipe."""
        os.set_blocking(self._write, False)
        self._former = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread, and wait until it ends."""
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
                    self._on_signal(number)
            for limit in list(self.limits):
                if limit.countdown.expired():
                    if self._debugged():
                        limit.countdown.restart()
                    else:
                        self._end_with(limit)
            if self._end_in is not None and self._end_in.expired():
                number = self._received[-1]
                _end(f"{signals.final_message(number)}\n", signals.exit_code(number))

    def _debugged(self) -> bool:
        """Check whether a debugger is attached, which may pause the main thread for any time.

        pdb traces the frames of the main thread; the debuggers of editors are pydevd. Call this
        rarely: walking the frames of a running thread may crash Python 3.11, in `PyFrame_GetBack`.
        """
        stack = traceback.walk_stack(sys._current_frames()[self._main])
        return "pydevd" in sys.modules or any(frame.f_trace for frame, _ in stack)

    def _on_signal(self, number: int) -> None:
        """Start the timeout at the first signal that is not a spare one."""
        if number not in signals.ENDING_SIGNALS:
            return
        self._received.append(number)
        if self.spare:
            self.spare -= 1
        elif self._end_in is None:
            self._end_in = Countdown(self._stop_seconds)

    def _end_with(self, limit: _Limit) -> None:
        """End the process with the error of a limit, and the stack of the main thread."""
        error = limit.error if isinstance(limit.error, UserError) else limit.error()
        stack = traceback.extract_stack(sys._current_frames()[self._main])[-STACK_FRAMES:]
        text = f"error: {error.message}\nthe main thread was at:\n"
        text += "".join(traceback.format_list(stack))
        if error.hint is not None:
            text += f"  hint: {error.hint}\n"
        _end(text, error.exit_code)


_current: Watchdog | None = None
_mark: str | None = None
_known: list[psutil.Process] = []


@contextlib.contextmanager
def guard(stop_seconds: float) -> Iterator[None]:
    """Run a watchdog thread within this context, which may end the process.

    The main thread of the command line enters it. In another thread, or inside another guard, the
    context does nothing.

    Args:
        stop_seconds: seconds in which the main thread must end the process after a signal. Then the
            watchdog ends it.
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
    """Mark processes started within this context, and their children, for :func:`kill_started`."""
    global _mark
    if _mark is not None:
        yield
        return
    former_mark = os.environ.get(MARK)  # set if a marked process started this one
    os.environ[MARK] = _mark = os.urandom(16).hex()
    try:
        yield
    finally:
        _mark = None
        if former_mark is None:
            os.environ.pop(MARK, None)  # a plugin may have cleared the environment
        else:
            os.environ[MARK] = former_mark


@contextlib.contextmanager
def time_limit(error: Cause, seconds: float) -> Iterator[None]:
    """End the process with an error if this context is not left in time.

    Use it for calls that normally return or raise long before the limit. It works in the main
    thread under :func:`guard`; elsewhere it does nothing.

    Args:
        error: the error, or a function that creates it when the time is up.
        seconds: the time limit.
    """
    if _current is None or not signals.in_main_thread():
        yield
        return
    limits = _current.limits
    entry = _Limit(error, Countdown(seconds))
    limits.append(entry)
    try:
        yield
    finally:
        limits.remove(entry)


@contextlib.contextmanager
def defer_first_signal() -> Iterator[None]:
    """Start no timeout at the first signal within this context; the main thread handles it."""
    watchdog = _current
    if watchdog is not None:
        watchdog.spare = 1
    try:
        yield
    finally:
        if watchdog is not None:
            watchdog.spare = 0


def also_kill(processes: Iterable[psutil.Process]) -> None:
    """Add processes to those that :func:`kill_started` kills.

    A process that sets its title may overwrite its environment and lose the mark.
    """
    running = [process for process in _known if process.is_running()]
    _known[:] = [*running, *processes]


def kill_started() -> None:
    """Kill all processes that were started within :func:`mark_children`, their children, and those
    that :func:`also_kill` added."""
    import psutil

    for process in _known:
        with contextlib.suppress(psutil.Error):
            process.kill()  # psutil kills no other process that has reused the pid
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            marked = _mark is not None and process.environ().get(MARK) == _mark
            if marked and process.pid != os.getpid() and TRACKER not in " ".join(process.cmdline()):
                process.kill()


def _end(text: str, code: int) -> None:
    """Print a message to standard error, kill the started processes and exit at once.

    Neither exit handlers nor other threads are waited for.
    """
    try:
        flush = threading.Thread(target=_flush, daemon=True)  # in a thread, as a write may hang
        flush.start()
        flush.join(FLUSH_SECONDS)
        with contextlib.suppress(OSError):
            if os.isatty(2):
                os.write(2, b"\x1b[?25h")  # show the cursor, which progress bars hide
            os.write(2, strip_control(text).encode())
        kill_started()
    finally:
        os._exit(code)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
