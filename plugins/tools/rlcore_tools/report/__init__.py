"""Write `report.html`: the results of a run, as one file that opens without a network.

run folder --RunRecord--> facts --figures, chart, clips--> page --templates--> HTML

A report is made from the files of the run folder alone. It can be made at any time, also while the
run continues or after it was killed. Sections whose files are missing are left out, with a note.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path

from rlcore.contracts.errors import ConfigError, RunWarning
from rlcore.files.atomic import write_text
from rlcore.runs.folder import RunFolder
from rlcore_tools.report.page import comparison_page, run_page
from rlcore_tools.report.sameness import first_difference
from rlcore_tools.report.sweep import sweep_page
from rlcore_tools.runs.record import RunRecord
from rlcore_tools.runs.row import Row

__all__ = ["compare_metrics", "write_comparison", "write_page", "write_report", "write_sweep"]


class DoubtWarning(RunWarning):
    """Warning that a file in a run folder does not match the run's other files."""


def write_report(folder: RunFolder, output: Path | None = None) -> Path:
    """Write the report of one run.

    Args:
        folder: the run folder.
        output: the file to write; None: `report.html` in the run folder.

    Returns:
        absolute path of the report.

    Raises:
        CheckpointError: a file of the run is damaged.
        ConfigError: `output` can't be written.
    """
    target = (output or folder.report).absolute()
    record = RunRecord(folder)
    _warn_of_doubts(record)
    return write_page(target, run_page(record, target.parent))


def write_comparison(rows: Sequence[Row], output: Path) -> Path:
    """Write a page that compares several runs, and return its absolute path.

    Raises:
        CheckpointError: a file of a run is damaged.
        ConfigError: `output` can't be written.
    """
    target = output.absolute()
    for row in rows:
        _warn_of_doubts(row.record)
    return write_page(target, comparison_page(rows, target.parent))


def write_sweep(rows: Sequence[Row], title: str, output: Path, sweep: Path | None = None) -> Path:
    """Write a page that compares runs by their settings, aggregated over seeds.

    Args:
        rows: one row per run.
        title: title of the page.
        output: the file to write.
        sweep: folder of the sweep that the runs belong to; None if they belong to no sweep.

    Returns:
        absolute path of the page.

    Raises:
        ConfigError: `output` can't be written.
    """
    target = output.absolute()
    return write_page(target, sweep_page(title, rows, target.parent, sweep))


def compare_metrics(first: RunRecord, other: RunRecord) -> str:
    """Return one sentence: whether two runs logged equal metrics, and where they first differ.

    Raises:
        CheckpointError: a file of a run is damaged.
    """
    names = f"{first.folder.path} and {other.folder.path}"
    if not first.metrics and not other.metrics:
        return f"{names} have logged no metrics"
    part = first_difference(first.metrics, other.metrics)
    if part is None:
        return f"{names} have identical metrics (times aside)"
    return f"{names} have metrics that first differ {part}"


def _warn_of_doubts(record: RunRecord) -> None:
    """Warn of each file of a run that does not match the others (DoubtWarning)."""
    for doubt in record.doubts:
        warnings.warn(f"{record.folder.path}: {doubt}", DoubtWarning, stacklevel=3)


def write_page(target: Path, html: str) -> Path:
    """Write a page, and return its path.

    Raises:
        ConfigError: the file can't be written.
    """
    try:
        write_text(target, html)
    except OSError as error:
        raise ConfigError(
            f"the page can't be written to {target}: {error.strerror or error}",
            hint="--output FILE.html, in a folder you may write to",
        ) from error
    return target
