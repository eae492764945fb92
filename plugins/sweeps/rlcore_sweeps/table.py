"""Draw the table of a sweep: the state and results of each job, and commands to run next."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from rlcore.files.atomic import write_text
from rlcore.files.damaged_files import damaged_on, read_mapping
from rlcore.files.typed import as_type
from rlcore.runs.folder import SWEEP_TABLE
from rlcore.utils.console import as_text
from rlcore_sweeps.job import Note
from rlcore_sweeps.study_text import told
from rlcore_sweeps.trials import Trials

WIDTH, NARROW = 160, 130  # characters; a table narrower than NARROW omits columns LEFT_OUT
COLUMNS = ("job", "swept", "before", "after", "difference", "seconds", "folder")
SHOWN = {
    "success_before": ("rate", "lo", "hi"),
    "success_after": ("rate", "lo", "hi"),
    "paired_difference": ("mean", "lo", "hi"),
}
"""Entries of a run's summary that a row shows."""
LEFT_OUT = ("before", "seconds")


def write(sweep: Path) -> None:
    """Write the table to the sweep's folder."""
    write_text(sweep / SWEEP_TABLE, text(sweep))


def failures(notes: Sequence[Note]) -> str:
    """Return a list of the failed jobs with their errors, as text; empty if none failed."""
    failed = [note for note in notes if note.state == "failed"]
    if not failed:
        return ""
    lines = [f"  {note.number} {note.label}: {note.error}" for note in failed]
    return "\n".join([f"{len(failed)} of {len(notes)} jobs failed:", *lines, ""])


def text(sweep: Path, width: int = WIDTH) -> str:
    """Return the table, the summary of a study, the next commands and the failures, as text.

    Args:
        sweep: the sweep's folder.
        width: width of the table in characters.

    Raises:
        CheckpointError: a note, a summary or the record of the study is damaged.
    """
    notes = Note.all(sweep)
    figures = {note.number: _figures(note) for note in notes}
    names = [name for name in COLUMNS if width >= NARROW or name not in LEFT_OUT]
    table = Table(title="sweep", title_justify="left")
    for name in names:
        table.add_column(name, overflow="fold", justify="right" if name == "seconds" else "left")
    for note in notes:
        its, folder = figures[note.number], Path(note.folder)
        state = "" if note.state == "done" else note.state
        cells = (
            str(note.number),
            note.label,
            _rate(its.get("success_before")),
            _rate(its.get("success_after")),
            _difference(its.get("paired_difference")),
            f"{note.seconds:.0f}" if note.seconds else "",
            f"{folder.name if folder.is_dir() else ''} {state}".strip(),
        )
        row = dict(zip(COLUMNS, cells, strict=True))
        table.add_row(*(row[name] for name in names))
    trials = Trials.of(sweep)
    lines = [*_caveats(figures), *(told(trials) if trials else ()), *_next(sweep, notes, trials)]
    drawn = as_text(table, width=width) + "\n" + "".join(f"{line}\n" for line in lines)
    return drawn + failures(notes)


def _next(sweep: Path, notes: Sequence[Note], trials: Trials | None) -> list[str]:
    folder = shlex.quote(str(sweep))
    done = [note for note in notes if note.state == "done"]
    lines = [f"compare them: rlcore report {folder}"] if len(done) > 1 else []
    unfinished = len(done) < len(notes) if trials is None else not trials.over
    if unfinished:
        lines.append(f"go on with the others: rlcore resume {folder}")
    return lines


def _figures(note: Note) -> dict[str, Any]:
    file = Path(note.folder) / "summary.json"
    if not note.folder or not file.is_file():  # unfinished, or its verb writes no summary
        return {}
    figures = read_mapping(file)
    with damaged_on(file):
        for name, entries in SHOWN.items():
            if figures.get(name) is None:
                continue
            shown = as_type(dict[str, Any], figures[name], name)
            for entry in entries:
                as_type(float, shown.get(entry), f"{name}.{entry}")
        as_type(str, figures.get("caveat", ""), "caveat")
    return figures


def _caveats(figures: dict[int, dict[str, Any]]) -> list[str]:
    """Return the caveats of the results, each with the job numbers unless it holds for all jobs."""
    measured = [number for number, its in figures.items() if its]
    jobs: dict[str, list[str]] = {}
    for number in measured:
        if "caveat" in figures[number]:
            jobs.setdefault(figures[number]["caveat"], []).append(str(number))
    return [
        said if len(its) == len(measured) else f"job {', '.join(its)}: {said}"
        for said, its in jobs.items()
    ]


def _rate(figures: dict[str, float] | None) -> str:
    return "" if figures is None else "{rate:.3f} ({lo:.3f}..{hi:.3f})".format(**figures)


def _difference(figures: dict[str, float] | None) -> str:
    return "" if figures is None else "{mean:+.3f} ({lo:+.3f}..{hi:+.3f})".format(**figures)
