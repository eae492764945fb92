"""Run rows one after another, each a process with a limit, until the time is over.

A row that fails, hangs, runs out of memory or dies is a row of the record like any other. Its
figures up to then are kept. Only the standard library is used.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from parts.gpu.record import Record
from parts.gpu.rows import Row

MARK = "RLCORE_GPU_ROW"
"""A variable that all processes of a row inherit, by which they are found again."""
POLL_SECONDS = 0.1
WRITE_SECONDS = 1.0
"""Least seconds between two replacements of the file while a row runs."""
LEAST_SECONDS = 5.0
"""A row does not begin where fewer are left."""
LINES = 30
"""Of a row's output, the last ones that are kept where it went wrong."""
FINE = ("done", "lacking", "not reached")


@dataclass(frozen=True)
class Limits:
    """Seconds.

    Attributes:
        row: of one row.
        whole: of all rows together.
    """

    row: float = 90.0
    whole: float = 600.0


@dataclass
class Heard:
    """What a row's process has told so far."""

    figures: list[dict[str, Any]] = field(default_factory=list)
    status: str = ""
    why: str = ""
    output: deque[str] = field(default_factory=lambda: deque(maxlen=LINES))


class Driver:
    """Runs rows.

    Args:
        record: where the figures go.
        limits: seconds.
        environment: variables of the rows' processes, besides this one's.
        quick: whether the forms for CPUs are run.
        breaks: `{full name or part: how}`, rows that fail on purpose.
        say: prints a line.
    """

    def __init__(
        self,
        record: Record,
        limits: Limits,
        environment: Mapping[str, str],
        *,
        quick: bool,
        breaks: Mapping[str, str],
        say: Callable[[str], None],
    ) -> None:
        self._record = record
        self._limits = limits
        self._environment = {**os.environ, **environment}
        self._quick = quick
        self._breaks = breaks
        self._say = say
        self._begin = time.monotonic()

    def run(self, row: Row) -> dict[str, Any]:
        """Run one row, and return what the record keeps of it."""
        left = self._limits.whole - (time.monotonic() - self._begin)
        if left < LEAST_SECONDS:
            return self._keep(row, Heard(status="not reached"), 0.0)
        heard, began = Heard(), time.monotonic()
        self._keep(row, heard, 0.0, "running")
        try:
            self._heard_out(row, heard, began, min(self._limits.row, left))
        except BaseException:  # Ctrl-C, SIGTERM: what was measured is kept
            heard.status = "interrupted"
            self._keep(row, heard, time.monotonic() - began)
            raise
        return self._keep(row, heard, time.monotonic() - began)

    def _heard_out(self, row: Row, heard: Heard, began: float, limit: float) -> None:
        """Start the process and listen until it has ended or its time is over."""
        mark, written = uuid.uuid4().hex, 0
        process, listeners = self._start(row, heard, mark, limit)
        try:
            while process.poll() is None and time.monotonic() - began < limit:
                time.sleep(POLL_SECONDS)
                new = len(heard.figures) > written
                if new and time.monotonic() - began > WRITE_SECONDS:
                    written = len(heard.figures)
                    self._keep(row, heard, time.monotonic() - began, "running")
            late = process.poll() is None
        finally:
            end_all(process, mark)
        for listener in listeners:
            listener.join(timeout=2.0)
        if late and not heard.status:
            heard.status, heard.why = "stopped", f"it took longer than {limit:.0f} s"
        elif not heard.status:
            code = process.returncode
            heard.status = "died"
            heard.why = f"signal {-code}" if code < 0 else f"exit code {code}"

    def _start(
        self, row: Row, heard: Heard, mark: str, limit: float
    ) -> tuple[subprocess.Popen[str], list[threading.Thread]]:
        reading, writing = os.pipe()
        order = {
            "target": row.target,
            "arguments": row.arguments_for(self._quick),
            "quick": self._quick,
            "needs": row.needs,
            "pipe": writing,
            "limit": limit,
            "breaks": self._breaks.get(row.full_name, self._breaks.get(row.part, "")),
        }
        script = "import sys; from parts.gpu.row_process import main; main(sys.argv[1])"
        process = subprocess.Popen(
            [sys.executable, "-c", script, json.dumps(order)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            pass_fds=(writing,),
            start_new_session=True,
            env={**self._environment, MARK: mark},
        )
        os.close(writing)
        assert process.stdout is not None
        answers = os.fdopen(reading, encoding="utf-8", errors="replace")
        listeners = [
            threading.Thread(target=_listen, args=(answers, heard), daemon=True),
            threading.Thread(target=_overhear, args=(process.stdout, heard), daemon=True),
        ]
        for listener in listeners:
            listener.start()
        return process, listeners

    def _keep(self, row: Row, heard: Heard, seconds: float, status: str = "") -> dict[str, Any]:
        kept: dict[str, Any] = {
            "row": row.full_name,
            "status": status or heard.status,
            "seconds": round(seconds, 1),
            "figures": list(heard.figures),
        }
        if heard.why:
            kept["why"] = heard.why
        if not status and heard.status not in FINE:
            kept["output"] = list(heard.output)
        self._record.keep(kept)
        if not status:
            why = f": {heard.why.splitlines()[0]}" if heard.why else ""
            self._say(f"{row.full_name:<36} {heard.status:<14} {seconds:6.1f} s{why}")
        return kept


def _listen(answers: IO[str], heard: Heard) -> None:
    """Take down figures until the last writer has ended."""
    with answers:
        for line in answers:
            with contextlib.suppress(ValueError):  # half a line of a process that was ended
                message = json.loads(line)
                if "figures" in message:
                    heard.figures.append(message["figures"])
                else:
                    heard.status, heard.why = message["status"], message["why"]


def _overhear(output: IO[str], heard: Heard) -> None:
    """Keep the last lines of what a row prints."""
    with output:
        for line in output:
            heard.output.append(line.rstrip()[:500])


def end_all(process: subprocess.Popen[str], mark: str) -> None:
    """End a row's process, and all that it has started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    for pid in marked(mark):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    process.wait()


def marked(mark: str) -> Sequence[int]:
    """Return the processes that inherited a mark (Linux; elsewhere none is found)."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if wanted in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
    return found
