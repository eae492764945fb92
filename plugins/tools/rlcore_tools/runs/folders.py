"""Find the runs below a folder: of commands, of sweeps, and what is left of broken ones."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from rlcore.contracts.errors import CheckpointError
from rlcore.files.reading import Unreadable, reason_of
from rlcore_tools.runs.reading import Values, read_mapping
from rlcore_tools.runs.row import FILES, Row, inside, look

OF_A_RUN = set(FILES)
"""Whatever has one of these is a run, be it a broken one."""
JOBS = ".jobs"
"""Notes of a sweep on its jobs, a JSON file each: `{"folder", "label", "state", "error", ...}`."""
DEEPEST = 8  # folders in each other


def runs_below(folder: str | Path) -> list[Row]:
    """All runs in a folder and below it, or the one that it is, in the order of their names;
    numbers in these count as numbers. A folder that can't be looked into is a row that says so.

    Raises:
        CheckpointError: there is no such folder.
    """
    root = Path(folder).expanduser()
    try:
        if not root.is_dir():
            raise CheckpointError(
                f"there is no folder {root}", hint="rlcore runs ls FOLDER, such as logs"
            )
    except (OSError, ValueError) as error:
        raise CheckpointError(f"there is no folder {str(root)[:200]}: {reason_of(error)}") from None
    root = root.absolute()
    return sorted(_found(root, root, None, 0), key=lambda row: in_order(row.name))


def row_of(folder: Path) -> Row:
    """The row of one run, with what a sweep that it belongs to says of it."""
    row = look(folder, folder.name)
    if row.state == "finished":
        return row
    return look(folder, folder.name, _jobs(folder.parent).get(folder.name))


def in_order(name: str) -> list[tuple[int, str]]:
    """A key to sort names by: `run-2` before `run-10`."""
    parts = re.findall(r"\d+|\D+", name)
    return [(int(part[:300]), "") if part.isdecimal() else (-1, part) for part in parts]


def _found(folder: Path, root: Path, job: Values | None, depth: int) -> Iterator[Row]:
    name = folder.name if folder == root else str(folder)[len(str(root)) :].lstrip("/")
    try:
        names = inside(folder)
        if not OF_A_RUN.isdisjoint(names):
            yield look(folder, name, job, names)
            return
        jobs = _jobs(folder) if JOBS in names else {}
        below = [entry for entry in names.values() if _leads_on(entry)]
    except OSError as error:
        yield Row(folder, name, "unreadable", reason_of(error))
        return
    for entry in below if depth < DEEPEST else ():
        yield from _found(folder / entry.name, root, jobs.pop(entry.name, None), depth + 1)
    for lost, note in jobs.items():  # failed before it had a folder
        if note.get("state") == "failed":
            yield Row(folder / lost, f"{name}/{lost}", "failed", str(note.get("error") or ""))


def _leads_on(entry: os.DirEntry[str]) -> bool:
    """Whether to look inside: not through a link, but where it is a run that it leads to."""
    try:
        is_folder = not entry.name.startswith(".") and entry.is_dir()
        return is_folder and (not entry.is_symlink() or Path(entry, "config.yaml").is_file())
    except OSError:  # a link that leads to itself
        return False


def _jobs(sweep: Path) -> dict[str, Mapping[str, object]]:
    """A sweep's notes by the names of their runs' folders."""
    notes: dict[str, Mapping[str, object]] = {}
    for file in (sweep / JOBS).glob("[0-9]*.json"):
        with contextlib.suppress(OSError, Unreadable):
            note = read_mapping(file) or {}
            notes[Path(str(note.get("folder") or f"job {file.stem}")).name] = note
    return notes
