"""A call on a thread of its own: what it raises comes back, and one that hangs is left behind."""

from __future__ import annotations

import sys
import threading
import time

import pytest

from rlcore.utils.call_with_timeout import call_with_timeout


def test_it_is_waited_for():
    done: list[str] = []

    def work() -> None:
        time.sleep(0.05)
        done.append(threading.current_thread().name)

    assert call_with_timeout(work, 10) is None
    assert len(done) == 1 and done[0] != threading.current_thread().name


@pytest.mark.parametrize("error", [ZeroDivisionError("a"), SystemExit(0), KeyboardInterrupt()])
def test_what_it_raises_comes_back_whatever_it_is(error: BaseException):
    def work() -> None:
        raise error

    assert call_with_timeout(work, 10) is error


def test_sys_exit_ends_nothing():
    assert isinstance(call_with_timeout(sys.exit, 10), SystemExit)


def test_one_that_hangs_is_left_behind():
    release = threading.Event()
    begun = time.monotonic()
    with pytest.raises(TimeoutError):
        call_with_timeout(release.wait, 0.2)
    assert time.monotonic() - begun >= 0.2
    release.set()
