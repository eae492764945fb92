"""Read the state and results of a run from its folder: one row of `rlcore runs ls`."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from rlcore.config.schema_tree import find
from rlcore.contracts.errors import UserError
from rlcore.files.reading import UnreadableError, error_reason, read_text
from rlcore.files.symlinks import require_inside
from rlcore_tools.runs.reading import Values, read_config, read_ends, read_mapping

Entries = Mapping[str, os.DirEntry[str]]
State = Literal["running", "finished", "interrupted", "failed", "unreadable"]
SIDES = {"before": "success_before", "after": "success_after", "difference": "paired_difference"}
"""Columns with success rates or their difference, and their keys in `summary.json`."""
SUMMARY, MANIFEST, LOCK = "summary.json", "manifest.json", ".lock"
FILES = (SUMMARY, MANIFEST, "config.yaml", "metrics.jsonl")
"""Files that are read of a run; none of them may be a link that points out of its folder."""
HOLDER = re.compile(r"process (\d+) on (\S+) since (.+)")
ENDED = "attempts/*/ended.json"
"""Files that record why an attempt at a run ended early: `{"state", "reason"}`."""
SUCCESS = ("eval/success_once", "env/success_once")


@dataclass(frozen=True)
class Row:
    """Summary of a run. Values that the run does not have, or not yet, are None or empty.

    Attributes:
        folder: folder of the run.
        name: path of the run below the folder that was searched.
        state: "running", "finished", "interrupted", "failed" or "unreadable".
        reason: why the run is not finished, or why a finished run stopped before its last update.
        before, after: success rates, `{rate, n, lo, hi}`; only `{rate}`, and no `after`, if the
            run has no summary.
        difference: after - before, paired by start, `{mean, lo, hi}`.
        success: last success rate that a run without a summary logged.
        update: number of updates that a run without a summary logged.
        updates: number of updates that a run without a summary was to make.
        seconds: wall time.
        left: estimated seconds until a running run has made its updates, at its recent pace.
        started: start time in UTC, `YYYY-MM-DDTHH:MM:SS`.
        commit: first 10 characters of the commit of the checkout that it ran from.
        seed: seed of the run.
        words: overrides from the run's sweep, as on a command line; empty for other runs.
        kept: cache of :attr:`config`.
    """

    folder: Path
    name: str
    state: State
    reason: str = ""
    before: Values | None = None
    after: Values | None = None
    difference: Values | None = None
    success: float | None = None
    update: int | None = None
    updates: int | None = None
    seconds: float | None = None
    left: float | None = None
    started: str = ""
    commit: str = ""
    seed: int | None = None
    words: tuple[str, ...] = field(default=(), repr=False)
    kept: dict[str, Values] = field(default_factory=dict, repr=False, compare=False)

    @property
    def config(self) -> Values:
        """Configuration of the run, read at first use; empty if it can't be read."""
        if "config" not in self.kept:
            self.kept["config"] = {}
            with contextlib.suppress(OSError, ValueError):
                self.kept["config"] = read_config(self.folder / "config.yaml")
        return self.kept["config"]

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


COLUMNS = [name for name in Row.__dataclass_fields__ if name not in ("words", "kept")]


def look(folder: Path, name: str, job: Values | None = None, files: Entries | None = None) -> Row:
    """Return the row of a run; its state is "unreadable" if its files can't be read.

    Args:
        folder: folder of the run.
        name: see :class:`Row`.
        job: the note of its sweep on it, if any.
        files: result of :func:`inside` for the folder, if already known.
    """
    try:
        return _look(folder, name, job, inside(folder) if files is None else files)
    except OSError as error:
        reason = f"{Path(str(error.filename or '')).name}: {error_reason(error)}"
    except (UnreadableError, UserError) as error:
        reason = str(error)
    return Row(folder, name, "unreadable", reason)


def inside(folder: Path) -> Entries:
    """Return the entries of a folder by name."""
    with os.scandir(folder) as entries:
        return {entry.name: entry for entry in entries}


def _look(folder: Path, name: str, job: Values | None, files: Entries) -> Row:
    linked = [name for name in FILES if name in files and files[name].is_symlink()]
    if linked:
        require_inside(folder, (folder / name for name in linked))
    summary = read_mapping(f"{folder}/{SUMMARY}") if SUMMARY in files else None
    manifest = read_mapping(f"{folder}/{MANIFEST}") or {} if MANIFEST in files else {}
    if "config.yaml" not in files:
        raise UnreadableError("it has no config.yaml")
    facts: dict[str, Any] = {
        "started": str(manifest.get("started") or "")[:19],
        "commit": str(find(manifest, "git.commit") or "")[:10],
        "seed": find(manifest, "seeds.root"),
        "words": tuple(map(str, (job or {}).get("words") or ())),
    }
    holder = _holder(folder / LOCK) if LOCK in files else None
    if summary is not None and (holder is None or not _lives(holder)):
        spent = summary.get("seconds")
        seconds = sum(spent.values()) if spent is not None and _are_numbers(spent) else None
        figures: dict[str, Any] = {side: _figures(summary, key) for side, key in SIDES.items()}
        reason = str(summary.get("stopped") or "")
        return Row(folder, name, "finished", reason, **figures, seconds=seconds, **facts)
    return _unfinished(folder, name, holder, job, facts)


def _unfinished(
    folder: Path, name: str, holder: re.Match[str] | None, job: Values | None, facts: dict[str, Any]
) -> Row:
    first, last = read_ends(folder / "metrics.jsonl")
    row = Row(folder, name, "interrupted", **facts)
    most = find(row.config, "runner.max_epochs")
    updates = most if isinstance(most, int) and most > 0 else None
    update = max((line["step"] for line in last), default=0)
    state, reason = _state(folder, holder, job)
    began = _seconds_of(facts["started"])
    ended = time.time() if state == "running" else max(map(_time, last), default=None)
    return Row(
        folder,
        name,
        state,
        reason,
        before=_before(first),
        success=_success(last),
        update=update,
        updates=updates,
        seconds=max(0.0, ended - began) if began and ended else None,
        left=_left(last, updates) if state == "running" else None,
        kept=row.kept,
        **facts,
    )


def _state(folder: Path, holder: re.Match[str] | None, job: Values | None) -> tuple[State, str]:
    """Return the state of a run that is running or has no summary, and the reason for it."""
    if holder is not None:
        process, host, since = holder.groups()
        if _lives(holder):
            elsewhere = "" if host == socket.gethostname() else f"on {host}, as far as can be seen"
            return "running", elsewhere
        return "interrupted", f"process {process}, there since {since}, was killed"
    notes = sorted(folder.glob(ENDED))[-1:]
    ended = (read_mapping(notes[0]) if notes else None) or {}
    for said in (ended, {**(job or {}), "reason": (job or {}).get("error", "")}):
        if said.get("state") in ("failed", "interrupted"):
            return said["state"], str(said.get("reason") or "")
    if (folder / "demonstrations").is_dir() and not _size(folder / "metrics.jsonl"):
        return "finished", ""  # `rlcore collect` writes no summary
    if not (folder / MANIFEST).is_file():
        return "failed", "it ended before its workers were up"
    return "interrupted", "it ended without a summary"


def _holder(lock: Path) -> re.Match[str] | None:
    """Return the process that holds a run's lock, or held it when it was killed."""
    try:
        return HOLDER.fullmatch(read_text(lock, 1000))
    except (OSError, ValueError):
        return None


def _lives(holder: re.Match[str]) -> bool:
    """Check whether the process that took a lock still runs.

    A process on another machine counts as running, because it can't be checked from here. One with
    the same number that started after the lock was taken is another process.
    """
    process, host, since = holder.groups()
    if host != socket.gethostname():
        return True
    import psutil  # imported only if there is a lock

    with contextlib.suppress(psutil.Error, ValueError):
        taken = datetime.fromisoformat(since).timestamp()
        return bool(psutil.Process(int(process)).create_time() <= taken + 1)
    return False


def _size(file: Path) -> int:
    return file.stat().st_size if file.is_file() else 0


def _figures(summary: Values, key: str) -> Values | None:
    figures = summary.get(key)
    if figures is None:
        return None
    if not isinstance(figures, Mapping) or not _are_numbers(figures) or "lo" not in figures:
        raise UnreadableError(f"{SUMMARY}: {key} can't be {figures!r:.80}")
    return figures


def _are_numbers(values: Any) -> bool:
    return isinstance(values, Mapping) and all(
        isinstance(value, (int, float)) for value in values.values()
    )


def _before(lines: list[Values]) -> Values | None:
    """Return the logged success rate of the evaluation before training, without interval."""
    for line in lines:
        if line["step"] == 0 and isinstance(line.get(SUCCESS[0]), float):
            return {"rate": line[SUCCESS[0]]}
    return None


def _success(lines: list[Values]) -> float | None:
    for line in reversed(lines):
        for name in SUCCESS:
            if isinstance(line.get(name), float):
                return float(line[name])
    return None


def _left(lines: list[Values], updates: int | None) -> float | None:
    made = [line for line in lines if line["step"] >= 1]
    if updates is None or len(made) < 2 or made[-1]["step"] <= made[0]["step"]:
        return None
    pace = (_time(made[-1]) - _time(made[0])) / (made[-1]["step"] - made[0]["step"])
    return max(0.0, pace * (updates - made[-1]["step"]))


def _time(line: Values) -> float:
    value = line.get("time")
    return float(value) if isinstance(value, (int, float)) else 0.0


def _seconds_of(started: str) -> float | None:
    with contextlib.suppress(ValueError):
        return datetime.fromisoformat(f"{started}+00:00").timestamp()
    return None
