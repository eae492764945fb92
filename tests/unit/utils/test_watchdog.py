"""A process whose main thread hangs is ended by its watchdog, with the error."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from rlcore.contracts.errors import WorkerError

LONGEST = 60.0
# a call into C that no signal handler and no timeout of Python's gets through to: a lock, twice
BLOCKED = """
import ctypes, subprocess
from rlcore.utils import signals, watchdog
from rlcore.contracts.errors import WorkerError
signals.install_handlers()
def child():
    print(subprocess.Popen(["sleep", "600"]).pid, flush=True)
def block():
    libc, lock = ctypes.CDLL(None), ctypes.create_string_buffer(256)
    libc.pthread_mutex_init(lock, None)
    libc.pthread_mutex_lock(lock)
    libc.pthread_mutex_lock(lock)
"""


def start(body: str) -> tuple[subprocess.Popen[str], psutil.Process]:
    run = subprocess.Popen(
        [sys.executable, "-c", BLOCKED + body],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert run.stdout is not None
    return run, psutil.Process(int(run.stdout.readline()))


def gone(process: psutil.Process) -> bool:
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


def until_gone(process: psutil.Process) -> None:
    deadline = time.monotonic() + LONGEST
    while not gone(process):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_hanging_thread_ends_with_the_error_of_its_limit():
    run, child = start(
        "with watchdog.guard(1.0):\n"
        "    child()\n"
        "    with watchdog.time_limit(WorkerError('it hangs', hint='look'), 0.2):\n"
        "        block()\n"
    )
    _, err = run.communicate(timeout=LONGEST)
    assert run.returncode == WorkerError.exit_code
    assert "it hangs" in err and "in block" in err and "hint: look" in err
    until_gone(child)


def test_a_limit_begins_again_under_a_debugger():
    code = (
        "import pdb\n"  # before the limit: it takes a while on a busy machine
        "with watchdog.guard(1.0), watchdog.time_limit(WorkerError('it hangs'), 0.8):\n"
        "    breakpoint()\n"
        "    print('went on')\n"
    )
    typed = "import time; time.sleep(2)\ncontinue\n"
    run = subprocess.run(
        [sys.executable, "-c", BLOCKED + code],
        input=typed,
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONBREAKPOINT": ""},  # Ray, once begun in this process, sets its own
    )
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.endswith("went on\n")


@pytest.mark.quick(1)
@pytest.mark.skipif(sys.platform != "linux", reason="a lock of glibc's")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_ends_a_hanging_process(number: signal.Signals):
    """The first is held back, as during an update; the second ends after 0.2 s."""
    run, child = start(
        "with watchdog.guard(0.2), watchdog.defer_first_signal():\n    child(); block()\n"
    )
    time.sleep(0.5)  # until it blocks
    run.send_signal(number)
    time.sleep(1.5)
    assert run.poll() is None  # the first alone does nothing
    run.send_signal(number)
    _, err = run.communicate(timeout=LONGEST)
    cause = "interrupted" if number == signal.SIGINT else "terminated"
    assert run.returncode == 128 + number and cause in err
    until_gone(child)
