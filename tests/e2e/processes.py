"""Whether processes that a run started are gone."""

from __future__ import annotations

import time
from collections.abc import Sequence

import psutil


def wait_until_gone(processes: Sequence[psutil.Process], seconds: float = 100) -> None:
    """Wait until none of the processes runs any more, and fail after so many seconds."""
    deadline = time.monotonic() + seconds
    while running := [process for process in processes if is_running(process)]:
        assert time.monotonic() < deadline, running
        time.sleep(0.2)


def is_running(process: psutil.Process) -> bool:
    """Return whether a process still runs. One that has ended may stay in the system's table."""
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
