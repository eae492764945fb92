"""Write a run's spans as a trace that https://ui.perfetto.dev and chrome://tracing open.

The format is the JSON array of the Trace Event Format (Google, "Trace Event Format"): one process
per worker, one thread per row, and "complete" events. Its readers accept an array without its end,
so the file of a killed run can be opened.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any

from rlcore.utils.spans import CALLS, WAIT, Span, Taken

LIMIT = 1_000_000
"""Default number of spans in a file, about 120 MB."""


class TraceFile:
    """Writer of a trace file. The file is complete after each :meth:`add`.

    Args:
        path: the file, which is replaced if it exists.
        limit: number of spans that are written; later ones are counted and dropped.

    Attributes:
        spans: number of spans that were written.
        dropped: number of spans that were not recorded or not written.

    Raises:
        OSError: in all methods that write.
    """

    def __init__(self, path: Path, limit: int = LIMIT) -> None:
        self._file = path.open("w", encoding="utf-8")
        self._limit = limit
        self._number = count(1)  # viewers take process 0 for the idle one
        self._processes: dict[str, int] = {}
        self._threads: dict[tuple[str, str], int] = {}
        self._separator = "[\n"
        self.spans = 0
        self.dropped = 0

    def add(self, worker: str, taken: Taken) -> None:
        """Append the spans of a worker.

        Args:
            worker: name of the worker.
            taken: its spans since the last call.
        """
        written = taken.spans[: self._limit - self.spans]
        for span in written:
            self._write(self._event(worker, span))
        self.spans += len(written)
        self.dropped += taken.dropped + len(taken.spans) - len(written)
        self._file.flush()

    def close(self) -> None:
        """End the array and close the file; safe to call twice."""
        if self._file.closed:
            return
        with self._file:
            self._file.write("\n]\n" if self._processes else "[]\n")

    def _event(self, worker: str, span: Span) -> dict[str, Any]:
        # whole microseconds, rounded in one direction, so that spans still do not overlap
        begin = span.begin // 1000
        return {
            "ph": "X",
            "name": span.name,
            "cat": "wait" if span.name.startswith(WAIT) else "work",
            "ts": begin,
            "dur": span.end // 1000 - begin,
            "pid": self._process(worker),
            "tid": self._thread(worker, span.row),
            **({"args": {"repeats": span.repeats}} if span.repeats > 1 else {}),
        }

    def _process(self, worker: str) -> int:
        if worker not in self._processes:
            number = next(self._number)
            self._processes[worker] = number
            self._describe("process_name", {"name": worker}, pid=number)
            self._describe("process_sort_index", {"sort_index": number}, pid=number)
        return self._processes[worker]

    def _thread(self, worker: str, row: str) -> int:
        key = worker, row
        if key not in self._threads:
            number = next(self._number)
            self._threads[key] = number
            self._describe("thread_name", {"name": row}, pid=self._process(worker), tid=number)
        return self._threads[key]

    def _describe(self, name: str, arguments: Mapping[str, Any], **of: int) -> None:
        self._write({"ph": "M", "name": name, **of, "args": arguments})

    def _write(self, event: Mapping[str, Any]) -> None:
        self._file.write(self._separator + json.dumps(event))
        self._separator = ",\n"


class Waits:
    """Sums of the time that workers waited.

    The waits of the rows of a worker are averaged, as its rows run at the same time; its waits for
    the driver are added.
    """

    def __init__(self) -> None:
        self._waited: defaultdict[str, defaultdict[str, int]] = defaultdict(
            lambda: defaultdict(int)
        )  # nanoseconds by worker and row
        self._begin: dict[str, int] = {}
        self._end: dict[str, int] = {}

    def add(self, worker: str, taken: Taken) -> None:
        """Count the spans of a worker."""
        for span in taken.spans:
            self._begin[worker] = min(self._begin.get(worker, span.begin), span.begin)
            self._end[worker] = max(self._end.get(worker, span.end), span.end)
            if span.name.startswith(WAIT):
                self._waited[worker][span.row] += span.end - span.begin

    def longest(self) -> str:
        """Return the worker that waited longest in words, or "" if none waited.

        E.g. `"rollout worker 0 waited longest, 8.1 of 12.0 s"`.
        """
        seconds = {worker: self._seconds(rows) for worker, rows in self._waited.items()}
        if not seconds:
            return ""
        worker = max(seconds, key=lambda name: seconds[name])
        present = (self._end[worker] - self._begin[worker]) / 1e9
        return f"{worker} waited longest, {seconds[worker]:.1f} of {present:.1f} s"

    def _seconds(self, waited: Mapping[str, int]) -> float:
        rows = [nanoseconds for row, nanoseconds in waited.items() if row != CALLS]
        mean = sum(rows) / len(rows) if rows else 0.0
        return (waited.get(CALLS, 0) + mean) / 1e9
