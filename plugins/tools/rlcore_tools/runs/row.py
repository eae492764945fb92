"""Read the state and results of a run from its folder: one row of `rlcore runs ls`."""

from __future__ import annotations

import contextlib
import re
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple

from rlcore.config.schema_tree import find
from rlcore.contracts.errors import CheckpointError, UserError
from rlcore.files.damaged_files import damaged_error, read_mapping
from rlcore.files.reading import read_text
from rlcore.files.symlinks import require_inside
from rlcore.runs.folder import RunFolder
from rlcore_tools.runs.record import SUCCESS, RunRecord, Values

State = Literal["running", "finished", "interrupted", "failed", "unreadable"]
SIDES = {"before": "success_before", "after": "success_after", "difference": "paired_difference"}
"""Columns with success rates or their difference, and their keys in `summary.json`."""
EVALUATED = "eval/success_once"
SUPERVISED = "sft/train_loss"  # metric that each step of supervised training logs
RECENT = 20  # updates whose pace is used to estimate the remaining time


@dataclass(frozen=True)
class Row:
    """Summary of a run. Values that the run does not have, or not yet, are None or empty.

    Attributes:
        record: contents of the run's folder.
        name: path of the run below the folder that was searched.
        state: "running", "finished", "interrupted", "failed" or "unreadable".
        reason: why the run is not finished, or why a finished run stopped before its last update.
        before, after: success rates, `{rate, n, lo, hi}`; only `{rate}`, and no `after`, if the
            run has no summary.
        difference: after - before, paired by start, `{mean, lo, hi}`.
        success: last success rate that a run without a summary logged.
        update: number of updates that a run without a summary logged.
        updates: number of updates that a run without a summary was to make.
        sft_step: number of supervised steps that a run without an update logged.
        sft_steps: number of supervised steps that it was to make; None: it has no fixed number.
        seconds: wall time.
        left: estimated seconds until a running run has made its updates, at its recent pace.
        started: start time in UTC, `YYYY-MM-DDTHH:MM:SS`.
        commit: first 10 characters of the commit of the checkout that it ran from.
        seed: seed of the run.
        words: overrides from the run's sweep, as on a command line; empty for other runs.
    """

    record: RunRecord
    name: str
    state: State
    reason: str = ""
    before: Values | None = None
    after: Values | None = None
    difference: Values | None = None
    success: float | None = None
    update: int | None = None
    updates: int | None = None
    sft_step: int | None = None
    sft_steps: int | None = None
    seconds: float | None = None
    left: float | None = None
    started: str = ""
    commit: str = ""
    seed: int | None = None
    words: tuple[str, ...] = field(default=(), repr=False)

    @property
    def folder(self) -> Path:
        """Folder of the run."""
        return self.record.folder.path

    @property
    def config(self) -> Values:
        """Configuration of the run; empty if it can't be read."""
        try:
            return self.record.config
        except UserError:
            return {}

    @property
    def versions(self) -> Values:
        """:attr:`RunRecord.versions`; empty if they can't be read."""
        try:
            return self.record.versions
        except UserError:
            return {}

    def value(self, key: str) -> Any:
        """Return the value of a column, or else of a key of the configuration.

        A rate is returned without its interval, a difference as its mean. None means no value.
        """
        if key in SIDES:
            figures: Values = getattr(self, key) or {}
            return figures.get("mean" if key == "difference" else "rate")
        if key in COLUMNS:
            return getattr(self, key)
        return find(self.config, key)

    def as_values(self) -> dict[str, Any]:
        """Return all columns as values that JSON can represent."""
        return {**{name: getattr(self, name) for name in COLUMNS}, "folder": str(self.folder)}


COLUMNS = ["folder", *(f.name for f in fields(Row) if f.name not in ("record", "words"))]


def read_row(folder: Path, name: str, job: Values | None = None) -> Row:
    """Return the row of a run; its state is "unreadable" if its files can't be read.

    Args:
        folder: folder of the run.
        name: see :class:`Row`.
        job: the note of its sweep on it, if any.
    """
    record = RunRecord(RunFolder(folder))
    try:
        return _read_row(record, name, job or {})
    except UserError as error:
        return Row(record, name, "unreadable", error.message.removeprefix(f"{folder}/"))


def _read_row(record: RunRecord, name: str, job: Values) -> Row:
    folder = record.folder
    require_inside(folder.path, (folder.config, folder.metrics))
    if not folder.config.exists():
        raise CheckpointError("it has no config.yaml")
    summary = record.summary
    row = Row(
        record,
        name,
        "finished",
        started=str(record.manifest.get("started") or "")[:19],
        commit=record.commit,
        seed=find(record.manifest, "seeds.root"),
        words=tuple(map(str, job.get("words") or ())),
    )
    holder = LockHolder.of(folder.path)
    if summary is None or (holder is not None and holder.is_alive()):
        return _with_progress(row, *_state(row, holder, job))
    figures: dict[str, Any] = {}
    for column, key in SIDES.items():
        figures[column] = _numbers(summary, key, folder.summary)
    seconds = _numbers(summary, "seconds", folder.summary)
    return replace(
        row,
        reason=str(summary.get("stopped") or ""),
        seconds=None if seconds is None else sum(seconds.values()),
        **figures,
    )


def _numbers(summary: Values, key: str, path: Path) -> Values | None:
    """Return the mapping of names to numbers under a key of the summary, or None."""
    values = summary.get(key)
    if values is None:
        return None
    required = {"seconds": set(), "paired_difference": {"mean", "lo", "hi"}}.get(key, {"rate"})
    if not isinstance(values, Mapping) or not required <= values.keys():
        raise damaged_error(path, f"{key} can't be {values!r:.80}")
    if not all(isinstance(value, (int, float)) for value in values.values()):
        raise damaged_error(path, f"{key} can't be {values!r:.80}")
    return values


def _with_progress(row: Row, state: State, reason: str) -> Row:
    """Return a row with the state of a run that is not finished, and with its logged progress."""
    record = row.record
    maximum = find(row.config, "runner.max_epochs")
    updates = maximum if isinstance(maximum, int) and maximum > 0 else None
    evaluated = record.series(EVALUATED)
    trained = record.series(SUCCESS)
    times = dict(record.series("time"))
    before = dict(evaluated).get(0)
    latest = max(evaluated[-1:] + trained[-1:], key=lambda point: point[0], default=None)
    end = time.time() if state == "running" else max(times.values(), default=None)
    start = _timestamp(row.started)
    supervised = [] if record.updates else record.series(SUPERVISED)
    ends = find(row.config, "sft.until") == "max_steps"
    return replace(
        row,
        state=state,
        reason=reason,
        before=None if before is None else {"rate": before},
        success=latest and latest[1],
        update=record.updates,
        updates=updates,
        # steps are numbered on from those of the run whose policy this one began from
        sft_step=supervised[-1][0] - supervised[0][0] + 1 if supervised else None,
        sft_steps=find(row.config, "sft.max_steps") if ends else None,
        seconds=None if start is None or end is None else max(0.0, end - start),
        left=_seconds_left(trained, times, updates) if state == "running" else None,
    )


def _seconds_left(
    trained: Sequence[tuple[int, float]], times: Mapping[int, float], updates: int | None
) -> float | None:
    """Extrapolate the pace of recent updates.

    Args:
        trained: series of a metric that each update logs.
        times: time in seconds by update.
        updates: number of updates to make.
    """
    steps = [step for step, _ in trained if step in times][-RECENT:]
    if updates is None or len(steps) < 2:
        return None
    pace = (times[steps[-1]] - times[steps[0]]) / (steps[-1] - steps[0])
    return max(0.0, pace * (updates - steps[-1]))


def _timestamp(started: str) -> float | None:
    with contextlib.suppress(ValueError):
        return datetime.fromisoformat(f"{started}+00:00").timestamp()
    return None


# -- state --------------------------------------------------------------------------------------


class LockHolder(NamedTuple):
    """Process that holds the lock of a run, or that held it when it was killed."""

    process: int
    host: str
    since: str

    @classmethod
    def of(cls, folder: Path) -> LockHolder | None:
        """Return the holder that a run's lock file names; None without such a file."""
        with contextlib.suppress(OSError, ValueError):
            text = read_text(folder / ".lock", 1000)
            match = re.fullmatch(r"process (\d+) on (\S+) since (.+)", text)
            return match and cls(int(match[1]), match[2], match[3])
        return None

    @property
    def is_local(self) -> bool:
        """True if the process was started on this machine."""
        return self.host == socket.gethostname()

    def is_alive(self) -> bool:
        """Check whether the process still runs.

        A process on another machine counts as running, because it can't be checked from here. One
        with the same number that started after the lock was taken is another process.
        """
        if not self.is_local:
            return True
        import psutil  # imported only if there is a lock

        with contextlib.suppress(psutil.Error, ValueError):
            locked_at = datetime.fromisoformat(self.since).timestamp()
            return bool(psutil.Process(self.process).create_time() <= locked_at + 1)
        return False


def _state(row: Row, holder: LockHolder | None, job: Values) -> tuple[State, str]:
    """Return the state of a run that is running or has no summary, and the reason for it."""
    folder = row.record.folder
    if holder is not None and holder.is_alive():
        host = "" if holder.is_local else f"on {holder.host}, which can't be checked from here"
        return "running", host
    if holder is not None:
        return "interrupted", f"process {holder.process}, running since {holder.since}, was killed"
    # an attempt that ends early writes the reason
    end_files = sorted(folder.path.glob("attempts/*/ended.json"))
    end_note = read_mapping(end_files[-1]) if end_files else {}
    for note in (end_note, {**job, "reason": job.get("error")}):
        if note.get("state") in ("failed", "interrupted"):
            return note["state"], str(note.get("reason") or "")
    if folder.demonstrations.is_dir() and not row.record.metrics:
        return "finished", ""  # `rlcore collect` writes no summary
    if not folder.manifest.is_file():
        return "failed", "it ended before its workers started"
    if find(row.config, "collect.output") is not None and not row.record.metrics:
        # `rlcore collect`, which alone writes there: its attempt started workers, released the
        # lock, and ended without an error
        return "finished", ""
    return "interrupted", "it ended without a summary"
