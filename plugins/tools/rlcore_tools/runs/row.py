"""What became of a run, as its folder says: one row of `rlcore runs ls`."""

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
from rlcore.files.reading import Unreadable, read_text, reason_of
from rlcore.files.symlinks import require_inside
from rlcore_tools.runs.reading import Values, read_config, read_ends, read_mapping

Entries = Mapping[str, os.DirEntry[str]]
State = Literal["running", "finished", "interrupted", "failed", "unreadable"]
SIDES = {"before": "success_before", "after": "success_after", "difference": "paired_difference"}
"""Figures of a row, and their keys in `summary.json`."""
SUMMARY, MANIFEST, LOCK = "summary.json", "manifest.json", ".lock"
FILES = (SUMMARY, MANIFEST, "config.yaml", "metrics.jsonl")
"""What is read of a run; none of them may be a link that leads out of its folder."""
HOLDER = re.compile(r"process (\d+) on (\S+) since (.+)")
ENDED = "attempts/*/ended.json"
"""Why an attempt at a run ended early: `{"state", "reason"}`."""
SUCCESS = ("eval/success_once", "env/success_once")


@dataclass(frozen=True)
class Row:
    """A run in short; None where it has no such thing, or not yet.

    Attributes:
        folder: of the run.
        name: its path below the folder that was looked through.
        state: what became of it.
        reason: why it is not finished; of one that is, why it was stopped before its last update.
        before, after: success rates, `{rate, n, lo, hi}`; without an interval while it goes on.
        difference: after - before on the same starts, `{mean, lo, hi}`.
        success: the last rate that was logged.
        update, updates: how many are made, and how many are to be.
        seconds: wall time.
        left: seconds until it has made its updates, at the pace of the last ones.
        started: when, UTC.
        commit: of the checkout that it ran from.
        seed: of the run.
        words: what a sweep gave it, as on a command line; none outside of one.
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
        """Its configuration; empty where it can't be read."""
        if "config" not in self.kept:
            self.kept["config"] = {}
            with contextlib.suppress(OSError, ValueError):
                self.kept["config"] = read_config(self.folder / "config.yaml")
        return self.kept["config"]

    def value(self, key: str) -> Any:
        """What stands in a column, of a rate the number alone, or at a key of the configuration."""
        if key in SIDES:
            figures: Values = getattr(self, key) or {}
            return figures.get("mean" if key == "difference" else "rate")
        if key in COLUMNS:
            return getattr(self, key)
        return find(self.config, key)

    def as_values(self) -> dict[str, Any]:
        """All of it, for programs."""
        return {**{name: getattr(self, name) for name in COLUMNS}, "folder": str(self.folder)}


COLUMNS = [name for name in Row.__dataclass_fields__ if name not in ("words", "kept")]


def look(folder: Path, name: str, job: Values | None = None, files: Entries | None = None) -> Row:
    """The row of a run; one that can't be read says so.

    Args:
        folder: of the run.
        name: see :class:`Row`.
        job: the note that a sweep has on it.
        files: what is in the folder, where that is known.
    """
    try:
        return _look(folder, name, job, inside(folder) if files is None else files)
    except OSError as error:
        reason = f"{Path(str(error.filename or '')).name}: {reason_of(error)}"
    except (Unreadable, UserError) as error:
        reason = str(error)
    return Row(folder, name, "unreadable", reason)


def inside(folder: Path) -> Entries:
    """What is in a folder, by name."""
    with os.scandir(folder) as entries:
        return {entry.name: entry for entry in entries}


def _look(folder: Path, name: str, job: Values | None, files: Entries) -> Row:
    linked = [name for name in FILES if name in files and files[name].is_symlink()]
    if linked:
        require_inside(folder, (folder / name for name in linked))
    summary = read_mapping(f"{folder}/{SUMMARY}") if SUMMARY in files else None
    manifest = read_mapping(f"{folder}/{MANIFEST}") or {} if MANIFEST in files else {}
    if "config.yaml" not in files:
        raise Unreadable("it has no config.yaml")
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
    """What became of a run without a summary, and why."""
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
        return "finished", ""  # of rlcore collect
    if not (folder / MANIFEST).is_file():
        return "failed", "it ended before its workers were up"
    return "interrupted", "it ended without a summary"


def _holder(lock: Path) -> re.Match[str] | None:
    """Who has the lock of a run, or had it as it was killed."""
    try:
        return HOLDER.fullmatch(read_text(lock, 1000))
    except (OSError, ValueError):
        return None


def _lives(holder: re.Match[str]) -> bool:
    """Whether a process is there; one on another machine is believed to be."""
    process, host, since = holder.groups()
    if host != socket.gethostname():
        return True
    import psutil  # only where a lock is

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
        raise Unreadable(f"{SUMMARY}: {key} can't be {figures!r:.80}")
    return figures


def _are_numbers(values: Any) -> bool:
    return isinstance(values, Mapping) and all(
        isinstance(value, (int, float)) for value in values.values()
    )


def _before(lines: list[Values]) -> Values | None:
    """The evaluation before training, as it was logged."""
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
