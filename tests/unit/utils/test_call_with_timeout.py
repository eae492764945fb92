"""A call in another thread: its error is returned, and a hanging call is abandoned."""

from __future__ import annotations

import sys
import threading
import time

import pytest

from rlcore.utils.call_with_timeout import call_with_timeout


def test_a_call_runs_in_another_thread():
    done: list[str] = []

    def work() -> None:
        time.sleep(0.05)
        done.append(threading.current_thread().name)

    assert call_with_timeout(work, 10) is None
    assert len(done) == 1 and done[0] != threading.current_thread().name


@pytest.mark.parametrize("error", [ZeroDivisionError("a"), KeyboardInterrupt()])
def test_an_error_of_the_call_is_returned(error: BaseException):
    def work() -> None:
        raise error

    assert call_with_timeout(work, 10) is error


def test_sys_exit_of_the_call_does_not_end_the_process():
    assert isinstance(call_with_timeout(sys.exit, 10), SystemExit)


def test_a_hanging_call_times_out():
    release = threading.Event()
    begun = time.monotonic()
    with pytest.raises(TimeoutError):
        call_with_timeout(release.wait, 0.2)
    assert time.monotonic() - begun >= 0.2
    release.set()
