"""Run one row: this is what each process of benchmarks/gpu.py does.

Its figures go line by line through a pipe to the driver, so that none is lost when the row is cut
off. The last line says how it ended.
"""

from __future__ import annotations

import ctypes
import faulthandler
import importlib
import importlib.util
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

DEATH_SIGNAL = 1
"""PR_SET_PDEATHSIG of Linux's prctl: the signal that a process gets when its parent dies."""
BEFORE_LIMIT = 3.0
"""Seconds before the limit at which the tracebacks of a row that hangs are written."""
BREAKS = ("raise", "hang", "memory", "exit")


class Report(Protocol):
    """Add figures to the record at once."""

    def __call__(self, **figures: Any) -> None: ...


@dataclass(frozen=True)
class Order:
    """What a row's process is asked to do; it arrives as JSON.

    Attributes:
        target: `"module:function"`.
        arguments: of that function.
        quick: whether the form for CPUs is asked for.
        needs: modules without which it is not tried.
        pipe: file descriptor of the figures.
        limit: seconds until the driver ends the process.
        breaks: one of :data:`BREAKS`, a failure on purpose; empty: none.
    """

    target: str
    arguments: Mapping[str, Any]
    quick: bool
    needs: tuple[str, ...]
    pipe: int
    limit: float
    breaks: str = ""


def main(text: str) -> None:
    """Do what the order says, and report how it ended."""
    order = Order(**json.loads(text))
    _end_with_the_driver()
    _offer_to_the_kernel()
    faulthandler.enable()
    faulthandler.dump_traceback_later(max(order.limit - BEFORE_LIMIT, 0.5))
    send = os.fdopen(order.pipe, "w", encoding="utf-8", buffering=1)

    def report(**figures: Any) -> None:
        send.write(json.dumps({"figures": _plain(figures)}) + "\n")

    status, why = "done", ""
    try:
        absent = [name for name in order.needs if not _has(name)]
        if absent:
            raise ModuleNotFoundError(f"this Python has no {', '.join(absent)}")
        if order.breaks:
            _break(order.breaks)
        module, _, name = order.target.partition(":")
        function = getattr(importlib.import_module(module), name)
        function(report, quick=order.quick, **order.arguments)
    except Exception as error:
        status, why = _status_of(error), f"{type(error).__name__}: {error}"
        traceback.print_exc()
    send.write(json.dumps({"status": status, "why": why}) + "\n")
    send.flush()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # software GL and CUDA complain in their exit handlers


def _status_of(error: Exception) -> str:
    kinds = {kind.__name__ for kind in type(error).__mro__}
    if kinds & {"OutOfMemoryError", "MemoryError"}:
        return "out of memory"
    if kinds & {"ImportError", "MissingPackageError", "AssetError"}:
        return "lacking"
    return "failed"


def _has(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False


def _break(how: str) -> None:
    if how == "raise":
        raise RuntimeError("this row was asked to fail (--break)")
    if how == "exit":
        os._exit(7)
    if how == "memory":
        raise MemoryError("this row was asked to run out of memory (--break)")
    while True:
        time.sleep(1)


def _end_with_the_driver() -> None:
    """Have the kernel end this process when the driver's ends, however that is."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(DEATH_SIGNAL, signal.SIGKILL)


def _offer_to_the_kernel() -> None:
    """Have the kernel end this process, and not the driver, where main memory runs out."""
    try:
        Path("/proc/self/oom_score_adj").write_text("1000")
    except OSError:
        return


def _plain(value: Any) -> Any:
    """Return what JSON can hold: numbers of numpy and torch as Python's, no NaN or infinity."""
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, str | bool | int | None):
        return value
    number = float(value)
    return number if number == number and abs(number) != float("inf") else str(number)
