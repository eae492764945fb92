"""Draw the table of a sweep: the state and results of each job, and commands to run next."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from rlcore.files.atomic import write_text
from rlcore.files.damaged_files import damaged_on, read_mapping
from rlcore.files.typed import as_type
from rlcore.runs.folder import SWEEP_TABLE
from rlcore.utils.console import as_text
from rlcore_sweeps.job_record import JobRecord
from rlcore_sweeps.study_record import StudyRecord
from rlcore_sweeps.study_summary import summary_lines

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


def failures(records: Sequence[JobRecord]) -> str:
    """Return a list of the failed jobs with their errors, as text; empty if none failed."""
    failed = [record for record in records if record.state == "failed"]
    if not failed:
        return ""
    lines = [f"  {record.number} {record.label}: {record.error}" for record in failed]
    return "\n".join([f"{len(failed)} of {len(records)} jobs failed:", *lines, ""])


def print_table(sweep: Path) -> int:
    """Write and print the table, and print the failures on stderr; return the exit code."""
    write(sweep)
    width = min(WIDTH, shutil.get_terminal_size().columns) if sys.stdout.isatty() else WIDTH
    failed = failures(JobRecord.load_all(sweep))
    shown = text(sweep, width).removesuffix(failed)
    print(f"{shown}written to {sweep / SWEEP_TABLE}", flush=True)
    print(failed, end="", file=sys.stderr)
    return 1 if failed else 0


def text(sweep: Path, width: int = WIDTH) -> str:
    """Return the table, the summary of a study, the next commands and the failures, as text.

    Args:
        sweep: the sweep's folder.
        width: width of the table in characters.

    Raises:
        CheckpointError: a record, a summary or the record of the study is damaged.
    """
    records = JobRecord.load_all(sweep)
    figures = {record.number: _figures(record) for record in records}
    names = [name for name in COLUMNS if width >= NARROW or name not in LEFT_OUT]
    table = Table(title="sweep", title_justify="left")
    for name in names:
        table.add_column(name, overflow="fold", justify="right" if name == "seconds" else "left")
    for record in records:
        summary = figures[record.number]
        folder = Path(record.folder)
        state = "" if record.state == "done" else record.state
        cells = (
            str(record.number),
            record.label,
            _rate(summary.get("success_before")),
            _rate(summary.get("success_after")),
            _difference(summary.get("paired_difference")),
            f"{record.seconds:.0f}" if record.seconds else "",
            f"{folder.name if folder.is_dir() else ''} {state}".strip(),
        )
        row = dict(zip(COLUMNS, cells, strict=True))
        table.add_row(*(row[name] for name in names))
    trials = StudyRecord.load(sweep)
    lines = [
        *_caveats(figures),
        *(summary_lines(trials) if trials else ()),
        *_next(sweep, records, trials),
    ]
    drawn = as_text(table, width=width) + "\n" + "".join(f"{line}\n" for line in lines)
    return drawn + failures(records)


def _next(sweep: Path, records: Sequence[JobRecord], trials: StudyRecord | None) -> list[str]:
    folder = shlex.quote(str(sweep))
    done = [record for record in records if record.state == "done"]
    lines = [f"compare them: rlcore report {folder}"] if len(done) > 1 else []
    unfinished = len(done) < len(records) if trials is None else not trials.over
    if unfinished:
        lines.append(f"continue the unfinished jobs: rlcore resume {folder}")
    return lines


def _figures(record: JobRecord) -> dict[str, Any]:
    file = Path(record.folder) / "summary.json"
    if not record.folder or not file.is_file():  # unfinished, or its verb writes no summary
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
    measured = [number for number, summary in figures.items() if summary]
    jobs: dict[str, list[str]] = {}
    for number in measured:
        if "caveat" in figures[number]:
            jobs.setdefault(figures[number]["caveat"], []).append(str(number))
    return [
        caveat if len(numbers) == len(measured) else f"job {', '.join(numbers)}: {caveat}"
        for caveat, numbers in jobs.items()
    ]


def _rate(figures: dict[str, float] | None) -> str:
    return "" if figures is None else "{rate:.3f} ({lo:.3f}..{hi:.3f})".format(**figures)


def _difference(figures: dict[str, float] | None) -> str:
    return "" if figures is None else "{mean:+.3f} ({lo:+.3f}..{hi:+.3f})".format(**figures)
