"""Rows for the driver of benchmarks/gpu.py: what goes well, and what goes wrong."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import Any


def well(report: Any, *, quick: bool, number: int = 1) -> None:
    report(number=number, quick=quick)


def hangs(report: Any, *, quick: bool) -> None:
    """Hang together with a process in a session of its own."""
    child = subprocess.Popen(["sleep", "600"], start_new_session=True)
    report(pid=os.getpid(), child=child.pid)
    while True:
        time.sleep(1)


def dies(report: Any, *, quick: bool) -> None:
    report(before=1)
    os.kill(os.getpid(), signal.SIGKILL)


def needs_too_much(report: Any, *, quick: bool) -> None:
    report(before=1)
    raise MemoryError("no room")


def fails(report: Any, *, quick: bool) -> None:
    report(before=1)
    print("printed by the row", file=sys.stderr)
    raise ZeroDivisionError("on purpose")


def odd_numbers(report: Any, *, quick: bool) -> None:
    report(infinite=float("inf"), many=[1.5, {"a": (True, None)}])
