"""Collect what the driver and the workers recorded, for the trace of a run (`runner.trace`)."""

from __future__ import annotations

from rlcore.runs.folder import RunFolder
from rlcore.runs.trace_file import TraceFile, Waits
from rlcore.utils.spans import Spans, Taken
from rlcore.workers.group import WorkerGroup

DRIVER = "driver"


class RunTrace:
    """The trace of a session.

    A file that can't be written, e.g. on a full disk, ends the trace and not the run.

    Args:
        folder: folder of the run.
        spans: recorder of the driver.
        group: the started workers.

    Raises:
        OSError: the file can't be created.
    """

    def __init__(self, folder: RunFolder, spans: Spans, group: WorkerGroup) -> None:
        self._path = folder.trace
        self._file = TraceFile(folder.trace)
        self._spans = spans
        self._group = group
        self._waits = Waits()
        self._failure = ""

    def collect(self) -> None:
        """Append the spans of the driver and of all workers since the last call.

        All calls of workers must have ended.
        """
        workers = self._group.take_spans()
        for worker, spans in {DRIVER: self._spans.take(), **workers}.items():
            self._waits.add(worker, spans)
            self._append(worker, spans)

    def close(self) -> str:
        """End the file, and return a line for the user that names the longest waiting worker."""
        self._append(DRIVER, self._spans.take())
        try:
            self._file.close()
        except OSError as error:
            self._failure = self._failure or str(error)
        dropped = f"{self._file.dropped} spans left out" if self._file.dropped else ""
        failure = f"incomplete: {self._failure}" if self._failure else ""
        facts = "; ".join(filter(None, (self._waits.longest(), dropped, failure)))
        return f"trace: {self._path}, for https://ui.perfetto.dev{facts and f' ({facts})'}"

    def _append(self, worker: str, spans: Taken) -> None:
        if self._failure:
            return
        try:
            self._file.add(worker, spans)
        except OSError as error:
            self._failure = str(error)
