"""Log a run's metrics to `metrics.jsonl` and to the configured trackers.

Trackers are components of plugins. Their libraries are imported only when a run uses them.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from rlcore.config.schema import LoggerConfig, TimeoutsConfig
from rlcore.contracts.errors import PluginError, RunWarning, UserError, warn
from rlcore.contracts.protocols import Tracker
from rlcore.files.atomic import atomic_write, sync
from rlcore.files.reading import parse_json, read_lines
from rlcore.plugins.import_target import load_target
from rlcore.plugins.registry import Registry
from rlcore.runs.folder import RunFolder
from rlcore.runs.metrics import LINE
from rlcore.runs.tracker_thread import TrackerThread

TrackerFactory = Callable[[LoggerConfig, Path], Tracker]


class LostFileWarning(RunWarning):
    """A file of the run was removed or replaced while the run was writing to it."""


class MetricsLog:
    """The file `metrics.jsonl`, one JSON object per line: `{"step", "time", metric: number, ...}`.

    `time` is in seconds since the epoch. NaN and infinity are written as null, because JSON has
    neither. Every line is flushed, so that a killed process loses nothing it logged. If the file is
    removed or replaced during the run, :meth:`sync` restores it from the open file.

    Args:
        path: the file; new lines are appended to an existing one.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = path.open("ab+")
        # A file with other hard links, as in a copy of the run by `cp -al`, is replaced by a copy,
        # so that appended lines do not appear in the other run.
        if os.fstat(self._file.fileno()).st_nlink > 1:
            self._copy()

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        values = (step, round(time.time(), 3))
        line: dict[str, float | None] = dict(zip(LINE, values, strict=True))
        for name, value in metrics.items():
            number = float(value)
            line[name] = number if math.isfinite(number) else None
        with self._named():
            self._file.write((json.dumps(line, allow_nan=False) + "\n").encode())
            self._file.flush()

    def cut(self, size: int) -> None:
        """Truncate the file to `size` bytes. The run repeats the updates that were logged later."""
        with self._named():
            if size < os.fstat(self._file.fileno()).st_size:
                self._file.truncate(size)

    def sync(self) -> None:
        """Flush the file to the disk, before a checkpoint or a summary depends on it.

        If the file was removed or replaced, it is first restored, with a
        :class:`LostFileWarning`.
        """
        with self._named():
            if not self._is_there():
                self._copy()
                lost = f"{self._path} was removed or replaced while the run was writing to it"
                warn(f"{lost}; it is put back", LostFileWarning)
            os.fsync(self._file.fileno())
            sync(self._path.parent)

    def close(self) -> None:
        with self._named():
            self._file.close()

    def _is_there(self) -> bool:
        """Return whether the path still refers to the open file."""
        try:
            return os.path.samestat(self._path.stat(), os.fstat(self._file.fileno()))
        except FileNotFoundError:
            return False

    def _copy(self) -> None:
        """Write a copy of the open file to the path, and continue with the copy."""
        self._file.seek(0)
        with atomic_write(self._path) as partial, partial.open("wb") as copy:
            shutil.copyfileobj(self._file, copy)
        self._file.close()
        self._file = self._path.open("ab+")

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Add the path to an OSError of the body, as errors of an open file do not name it."""
        try:
            yield
        except OSError as error:
            error.filename = str(self._path)
            raise


def read_metrics(path: Path) -> list[dict[str, float | None]]:
    """Read the lines of a `metrics.jsonl`. An incomplete last line, left by a kill, is left out.

    Raises:
        OSError, ValueError: the file can't be read, or a line does not have the form that
            :class:`MetricsLog` writes.
    """
    numbered = enumerate(read_lines(path), start=1)
    return [_metrics_of(line, number) for number, line in numbered if line]


def _metrics_of(line: str, number: int) -> dict[str, float | None]:
    try:
        values = parse_json(line)
    except ValueError as error:
        raise ValueError(f"line {number}: {error}") from None
    if not isinstance(values, dict) or type(values.get("step")) is not int:
        raise ValueError(f"line {number} must be metrics of a step, got {line[:80]}")
    for name, value in values.items():
        # JSON allows integers of any length, so check that the number fits into a float
        fits = type(value) in (int, float) and abs(value) <= sys.float_info.max
        if value is not None and not fits:
            raise ValueError(f"line {number}: {name} must be a number or null, got {value!r:.80}")
    return values


class Trackers:
    """The metrics log of a run and all its trackers.

    Metrics are written to the log at once. Each tracker gets them in order, in its own thread. A
    tracker that fails or hangs during a run, e.g. after the network fails, is disabled with a
    warning and does not stop training; `metrics.jsonl` still has all metrics.

    Args:
        log: the log, which is always written.
        patience: timeout in seconds of each call of a tracker, and of closing all of them together.
    """

    def __init__(self, log: MetricsLog, patience: float = TimeoutsConfig().tracker) -> None:
        self._log = log
        self._patience = patience
        self._threads: list[TrackerThread] = []

    def add(self, name: str, make: Callable[[], Tracker]) -> None:
        """Build a tracker, which then gets all later metrics.

        Args:
            name: name of the tracker.
            make: builds the tracker; called in its thread.

        Raises:
            PluginError: the tracker can't start, or not within the timeout.
            UserError: the error of the tracker itself, if it is one.
        """
        thread = TrackerThread(name, make, self._patience)
        hint = f"use its offline mode, or take {name} out of runner.logger.logger_backends"
        try:
            error = thread.started()
        except TimeoutError:
            raise PluginError(
                f"tracker {name!r} did not start within {self._patience:g} s "
                "(cluster.timeouts.tracker)",
                hint=hint,
            ) from None
        if isinstance(error, UserError):
            raise error
        if error is not None:  # any error of the tracker's library, such as no login or no network
            reason = str(error) if isinstance(error, Exception) else repr(error)
            raise PluginError(f"tracker {name!r} could not start: {reason}", hint=hint) from error
        self._threads.append(thread)

    def cut(self, size: int) -> None:
        """Truncate the log to its first `size` bytes; trackers are not changed."""
        self._log.cut(size)

    def sync(self) -> None:
        """Flush the log to the disk, so that it survives a crash of the machine."""
        self._log.sync()

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        """Write metrics to the log, and queue them for the trackers.

        A tracker that has failed or hangs is disabled with a warning.
        """
        self._log.log(metrics, step)
        for thread in list(self._threads):
            thread.log(metrics, step)
            if trouble := thread.disabled_reason():
                self._threads.remove(thread)
                warn(f"tracker {thread.name!r} {trouble}; it is off from now on")

    def close(self) -> None:
        """Close all trackers, then the log, even if a tracker fails or hangs."""
        try:
            deadline = time.monotonic() + self._patience
            for thread in self._threads:
                thread.finish()
            for thread in self._threads:
                if trouble := thread.finished(deadline - time.monotonic()):
                    warn(f"tracker {thread.name!r} did not close: {trouble}")
        finally:
            self._threads = []
            self._log.close()

    def __enter__(self) -> Trackers:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def open_trackers(
    config: LoggerConfig,
    folder: RunFolder,
    registry: Registry,
    patience: float = TimeoutsConfig().tracker,
) -> Trackers:
    """Open the log and start the trackers that `config.logger_backends` names.

    Raises:
        PluginError: a tracker is unknown or can't start. Trackers that were already started are
            closed.
    """
    trackers = Trackers(MetricsLog(folder.metrics), patience)
    try:
        for name in config.logger_backends:
            factory: TrackerFactory = load_target(registry.get("tracker", name).spec.target)
            trackers.add(name, partial(factory, config, folder.path))
    except BaseException:
        trackers.close()
        raise
    return trackers
