"""`rlcore VERB ...` as a process of its own, watched from outside as its user could."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

from rlcore.runs.trackers import read_metrics

MARK = "RLCORE_FAULTS_RUN"  # inherited by every process of a command: so they are known again
POLL_SECONDS = 0.02


class Command:
    """A command under way.

    Attributes:
        folder: of the run it makes or goes on with.
        environment: variables besides this process's.
        mark: what its processes carry in their environment, under :data:`MARK`.
        pid: of the command itself; its process group has the same number.
        out, err: lines of standard output and standard error so far.

    Args:
        words: the command line after `rlcore`.
        folder, environment: as above.
    """

    def __init__(self, words: Sequence[str], folder: Path, environment: Mapping[str, str]) -> None:
        self.folder = folder
        self.environment = environment
        self.out: list[str] = []
        self.err: list[str] = []
        self.mark = uuid.uuid4().hex
        self._process = subprocess.Popen(
            [sys.executable, "-m", "rlcore.cli.main", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment, "PYTHONUNBUFFERED": "1", MARK: self.mark},
            start_new_session=True,  # a process group of its own, as a shell gives it
        )
        self.pid = self._process.pid
        self._lost = threading.Event()
        pipes = ((self._process.stdout, self.out), (self._process.stderr, self.err))
        for pipe, lines in pipes:
            threading.Thread(
                target=self._listen,
                args=(pipe, lines),
                daemon=True,
            ).start()

    def _listen(self, pipe: Any, lines: list[str]) -> None:
        """Take down lines until the last writer has ended, or nobody wants to read any more."""
        with pipe:
            for line in pipe:
                lines.append(line)
                if self._lost.is_set() and lines is self.out:
                    return

    def running(self) -> bool:
        """Whether it has not ended yet."""
        return self._process.poll() is None

    def close_output(self) -> None:
        """Read no further than the next line of standard output, and close it."""
        self._lost.set()

    def wait(self, timeout: float) -> int:
        """The exit code, once it has ended."""
        self.until(lambda: self._process.poll() is not None, timeout, "the end")
        return int(self._process.wait())

    def until(self, condition: Callable[[], bool], timeout: float, what: str) -> None:
        """Wait until the condition holds.

        Raises:
            RuntimeError: it did not in that many seconds, or the command ended before.
        """
        deadline = time.monotonic() + timeout
        while not condition():
            ended = self._process.poll()
            if (ended is not None and not condition()) or time.monotonic() > deadline:
                how = f"{timeout:.0f} s passed" if ended is None else f"it ended with {ended}"
                said = "".join([*self.out, *self.err])
                raise RuntimeError(f"waited for {what}, but {how}:\n{said}")
            time.sleep(POLL_SECONDS)

    def updates(self) -> int:
        """Updates that are done and logged."""
        file = self.folder / "metrics.jsonl"
        if not file.is_file():
            return 0
        lines = [line for line in read_metrics(file) if "train/actor/lr" in line]
        return max((int(line["step"] or 0) for line in lines), default=0)

    def saved(self) -> int:
        """Updates done at the last checkpoint."""
        latest = self.folder / "checkpoints" / "latest"
        return int(latest.read_text().rpartition("_")[2]) if latest.is_file() else 0

    def processes(self) -> list[psutil.Process]:
        """All of the command's that are alive, itself included."""
        found = []
        for process in psutil.process_iter():
            try:
                marked = process.environ().get(MARK) == self.mark
                if marked and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
            except psutil.Error:
                continue
        return found

    def worker(self, kind: str) -> psutil.Process:
        """The process of the worker of that class."""
        return next(one for one in self.processes() if title(one).startswith(f"ray::{kind}"))

    def ray(self, name: str) -> psutil.Process:
        """One of Ray's own processes, or the process of an actor of that class."""
        return next(
            one
            for one in self.processes()
            if one.name() == name or title(one).startswith(f"ray::{name}")
        )

    def simulator(self) -> psutil.Process:
        """A simulator process."""
        children = self.worker("EnvWorker").children()
        return next(one for one in children if ".serve" in title(one))

    def until_busy(self, kind: str, method: str, seconds: float, timeout: float) -> None:
        """Wait until a worker has been in one of its methods (`call`, `talk`) for a while."""
        worker, since = self.worker(kind), time.monotonic()

        def busy() -> bool:
            nonlocal since
            if f".{method}" not in title(worker):
                since = time.monotonic()
            return time.monotonic() - since >= seconds

        self.until(busy, timeout, f"{kind}.{method}")

    def end(self) -> None:
        """Kill what is left of it."""
        for process in self.processes():
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
        self._process.wait()


def title(process: psutil.Process) -> str:
    """The command line, where Ray writes what a worker is and does."""
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""
