"""Find the runs below a folder: single runs, runs of sweeps, and broken ones."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

from rlcore.contracts.errors import CheckpointError
from rlcore.files.damaged_files import read_mapping
from rlcore.files.reading import error_reason
from rlcore.runs.folder import RunFolder
from rlcore_tools.runs.record import RunRecord, Values
from rlcore_tools.runs.row import Row, read_row

RUN_FILES = {"config.yaml", "manifest.json", "metrics.jsonl", "summary.json"}
"""Names of files; a folder that has one of them is a run, even if others are missing."""
JOBS = ".jobs"
"""Folder of a sweep with a JSON file per job: `{"folder", "label", "state", "error", ...}`."""
DEEPEST = 8  # levels of nested folders that are searched


def runs_below(folder: str | Path) -> list[Row]:
    """Return the rows of all runs below a folder, or its own row if the folder is a run.

    Rows are sorted by name, where numbers within names sort by value. A folder that can't be read
    has a row with state "unreadable". A job that failed before it had a folder has a row too.

    Raises:
        CheckpointError: the folder does not exist.
    """
    root = Path(folder).expanduser()
    try:
        if not root.is_dir():
            raise CheckpointError(
                f"there is no folder {root}", hint="rlcore runs ls FOLDER, such as logs"
            )
    except (OSError, ValueError) as error:
        raise CheckpointError(
            f"there is no folder {str(root)[:200]}: {error_reason(error)}"
        ) from None
    root = root.absolute()
    return sorted(_rows(root, root, None, 0), key=lambda row: natural_order(row.name))


def row_of(folder: Path) -> Row:
    """Return the row of one run.

    If the run is not finished, the note of its sweep, if it belongs to one, is used too.
    """
    row = read_row(folder, folder.name)
    if row.state == "finished":
        return row
    return read_row(folder, folder.name, _job_notes(folder.parent).get(folder.name))


def natural_order(name: str) -> list[tuple[int, str]]:
    """Return a sort key for names that compares numbers by value: `run-2` before `run-10`."""
    parts = re.findall(r"\d+|\D+", name)
    return [(int(part[:300]), "") if part.isdecimal() else (-1, part) for part in parts]


def _rows(folder: Path, root: Path, job: Values | None, depth: int) -> Iterator[Row]:
    name = folder.name if folder == root else str(folder)[len(str(root)) :].lstrip("/")
    try:
        with os.scandir(folder) as entries:
            names = {entry.name: entry for entry in entries}
        if not RUN_FILES.isdisjoint(names):
            yield read_row(folder, name, job)
            return
        jobs = _job_notes(folder) if JOBS in names else {}
        searched = [entry for entry in names.values() if _is_searched(entry)]
    except OSError as error:
        yield Row(RunRecord(RunFolder(folder)), name, "unreadable", error_reason(error))
        return
    for entry in searched if depth < DEEPEST else ():
        yield from _rows(folder / entry.name, root, jobs.pop(entry.name, None), depth + 1)
    for missing, note in jobs.items():  # the job failed before it had a folder
        if note.get("state") == "failed":
            record = RunRecord(RunFolder(folder / missing))
            yield Row(record, f"{name}/{missing}", "failed", str(note.get("error") or ""))


def _is_searched(entry: os.DirEntry[str]) -> bool:
    """Check whether to search an entry: a folder that is not hidden, or a link to a run."""
    try:
        is_folder = not entry.name.startswith(".") and entry.is_dir()
        return is_folder and (not entry.is_symlink() or Path(entry, "config.yaml").is_file())
    except OSError:  # a link that leads to itself
        return False


def _job_notes(sweep: Path) -> dict[str, Values]:
    """Return the notes of a sweep on its jobs, by the name of the run's folder."""
    notes: dict[str, Values] = {}
    for file in (sweep / JOBS).glob("[0-9]*.json"):
        with contextlib.suppress(CheckpointError):
            note = read_mapping(file)
            notes[Path(str(note.get("folder") or f"job {file.stem}")).name] = note
    return notes
