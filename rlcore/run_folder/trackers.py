"""Log a run's scalars: always to `metrics.jsonl`, and to the configured trackers.

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
from rlcore.files.atomic import replacing, sync
from rlcore.files.reading import parse_json, read_lines
from rlcore.plugins.import_target import load_target
from rlcore.plugins.registry import Registry
from rlcore.run_folder.folder import RunFolder
from rlcore.run_folder.metrics import LINE
from rlcore.run_folder.tracker_thread import TrackerThread

TrackerFactory = Callable[[LoggerConfig, Path], Tracker]


class LostFileWarning(RunWarning):
    """A file of the run was removed or replaced while the run was writing to it."""


class MetricsLog:
    """`metrics.jsonl`: one JSON object a line, `{"step", "time", metric: number, ...}`.

    `time` is seconds since the epoch. JSON knows no NaN or infinity: they are written as null.
    Every line is flushed, so that a killed run keeps all it logged. A file that is removed or
    replaced meanwhile is copied back from the open one before anything relies on it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = path.open("ab+")
        if os.fstat(self._file.fileno()).st_nlink > 1:  # as in a copy of the run by `cp -al`
            self._copy()

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        own = (step, round(time.time(), 3))
        line: dict[str, float | None] = dict(zip(LINE, own, strict=True))
        for name, value in metrics.items():
            number = float(value)
            line[name] = number if math.isfinite(number) else None
        with self._named():
            self._file.write((json.dumps(line, allow_nan=False) + "\n").encode())
            self._file.flush()

    def cut(self, size: int) -> None:
        """Truncate to `size` bytes; the steps after it will be repeated."""
        with self._named():
            if size < os.fstat(self._file.fileno()).st_size:
                self._file.truncate(size)

    def sync(self) -> None:
        """Flush it to the disk, before a checkpoint or a summary relies on it."""
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
        """Whether the path still leads to the open file."""
        try:
            return os.path.samestat(self._path.stat(), os.fstat(self._file.fileno()))
        except FileNotFoundError:
            return False

    def _copy(self) -> None:
        """Go on in a copy of the open file, in its place."""
        self._file.seek(0)
        with replacing(self._path) as partial, partial.open("wb") as copy:
            shutil.copyfileobj(self._file, copy)
        self._file.close()
        self._file = self._path.open("ab+")

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Errors of an open file don't say which: a full disk should."""
        try:
            yield
        except OSError as error:
            error.filename = str(self._path)
            raise


def read_metrics(path: Path) -> list[dict[str, float | None]]:
    """Lines of a `metrics.jsonl`; a last line cut short by a kill is left out.

    Raises:
        OSError, ValueError: it can't be read, or a line is not what :class:`MetricsLog` writes.
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
        # one that a float can be: JSON has whole numbers of any length
        fits = type(value) in (int, float) and abs(value) <= sys.float_info.max
        if value is not None and not fits:
            raise ValueError(f"line {number}: {name} must be a number or null, got {value!r:.80}")
    return values


class Trackers:
    """All trackers of a run as one.

    The log is written at once; each tracker gets them on its own thread, in order. One that fails
    or hangs during a run (a network that went away) is switched off with a warning: `metrics.jsonl`
    still has everything, and hours of training are not lost over a curve.

    Args:
        log: what is always written.
        patience: seconds for a call of a tracker; for all of them together when they close.
    """

    def __init__(self, log: MetricsLog, patience: float = TimeoutsConfig().tracker) -> None:
        self._log = log
        self._patience = patience
        self._threads: list[TrackerThread] = []

    def add(self, name: str, make: Callable[[], Tracker]) -> None:
        """Build a tracker; from now on it gets the metrics too.

        Raises:
            PluginError: it can't start.
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
        if error is not None:  # no login, no network: whatever the library calls it
            reason = str(error) if isinstance(error, Exception) else repr(error)
            raise PluginError(f"tracker {name!r} could not start: {reason}", hint=hint) from error
        self._threads.append(thread)

    def cut(self, size: int) -> None:
        """Take back what the log has beyond its first `size` bytes; trackers keep it."""
        self._log.cut(size)

    def sync(self) -> None:
        """Let what was logged so far outlive the machine."""
        self._log.sync()

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        """Write them down, and let the trackers know."""
        self._log.log(metrics, step)
        for thread in list(self._threads):
            thread.log(metrics, step)
            if trouble := thread.disabled_reason():
                self._threads.remove(thread)
                warn(f"tracker {thread.name!r} {trouble}; it is off from now on")

    def close(self) -> None:
        """Close all of them, the log last, whatever happens to one."""
        try:
            threads, self._threads = self._threads, []
            deadline = time.monotonic() + self._patience
            for thread in threads:
                thread.finish()
            for thread in threads:
                if trouble := thread.finished(deadline - time.monotonic()):
                    warn(f"tracker {thread.name!r} did not close: {trouble}")
        finally:
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
    """Start the log and the trackers that `config.logger_backends` names.

    Raises:
        PluginError: an unknown tracker, or one that can't start. Those started before it are
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
