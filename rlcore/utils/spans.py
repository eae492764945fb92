"""Record what a worker does and when, as spans of time (`runner.trace`).

A recorder belongs to one worker, or to the driver. It is bounded, and it knows no file format
(:mod:`rlcore.runs.trace_file` writes them).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import NamedTuple

CALLS = "calls"
"""Row of the calls that the driver makes to a worker."""
LIMIT = 100_000
"""Default number of spans that a recorder holds between two calls of :meth:`Spans.take`."""
WAIT = "wait for "
"""Prefix of the names of spans in which a worker waits."""

_NOTHING = nullcontext()


class Span(NamedTuple):
    """Something that a worker did.

    Attributes:
        row: the activities of a worker that never overlap, e.g. those of one stage.
        name: what was done.
        begin, end: nanoseconds since the epoch (1970-01-01 UTC), by the clock of the worker's node.
        repeats: number of repetitions that the span covers.
    """

    row: str
    name: str
    begin: int
    end: int
    repeats: int = 1


class Taken(NamedTuple):
    """The result of :meth:`Spans.take`.

    Attributes:
        spans: the recorded spans, in the order in which they ended.
        dropped: number of spans that were not recorded, because the recorder was full.
    """

    spans: list[Span]
    dropped: int


class Spans:
    """Recorder of spans.

    Durations are those of `time.perf_counter_ns`, which never steps back, so spans of one row never
    overlap. :meth:`take` adds the offset to the clock that all nodes share. The recorder reads this
    offset once, because readings differ, by more than microseconds when the process is interrupted
    between the two clocks, and the spans of two calls would overlap. So spans do not follow a clock
    that is adjusted during the run.

    Args:
        on: whether anything is recorded.
        limit: number of spans that are held; later ones are counted and dropped.
    """

    def __init__(self, on: bool = False, limit: int = LIMIT) -> None:
        self._on = on
        self._limit = limit
        self._spans: list[Span] = []  # times by perf_counter_ns
        self._dropped = 0
        self._last_call: int | None = None
        self._offset = time.time_ns() - time.perf_counter_ns()

    def measure(self, row: str, name: str, *, group: bool = False) -> AbstractContextManager[None]:
        """Return a context that records its block as a span.

        Args:
            row: row of the span.
            name: name of the span.
            group: whether the previous span is extended instead if it has the same row and name;
                only for a recorder that one thread uses.
        """
        return self._measure(row, name, group) if self._on else _NOTHING

    def call(self, method: str) -> AbstractContextManager[None]:
        """Return a context that records a call by the driver, and the wait for it before."""
        return self._call(method) if self._on else _NOTHING

    def take(self) -> Taken:
        """Return the spans since the last call, and forget them."""
        taken = [
            span._replace(begin=span.begin + self._offset, end=span.end + self._offset)
            for span in self._spans
        ]
        dropped = self._dropped
        self._spans = []
        self._dropped = 0
        return Taken(taken, dropped)

    @contextmanager
    def _measure(self, row: str, name: str, group: bool) -> Iterator[None]:
        begin = time.perf_counter_ns()
        try:
            yield
        finally:
            self._add(Span(row, name, begin, time.perf_counter_ns()), group)

    @contextmanager
    def _call(self, method: str) -> Iterator[None]:
        if self._last_call is not None:
            wait = f"{WAIT}the driver"
            self._add(Span(CALLS, wait, self._last_call, time.perf_counter_ns()))
        try:
            with self._measure(CALLS, method, False):
                yield
        finally:
            self._last_call = time.perf_counter_ns()

    def _add(self, span: Span, group: bool = False) -> None:
        last = self._spans[-1] if group and self._spans else None
        if last is not None and last[:2] == span[:2]:
            self._spans[-1] = last._replace(end=span.end, repeats=last.repeats + 1)
        elif len(self._spans) < self._limit:
            self._spans.append(span)
        else:
            self._dropped += 1


OFF = Spans()
"""A recorder that records nothing."""
