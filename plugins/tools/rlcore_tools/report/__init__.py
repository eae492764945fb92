"""Write `report.html`: the results of a run, as one file that opens without a network.

run folder --record--> facts --figures, chart, clips--> page --templates--> HTML

Everything is read from the folder, so a report can be made again at any time, also of a run that is
under way or was killed. What is missing is left out, with a note.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path

from rlcore.contracts.errors import ConfigError, RunWarning
from rlcore.files.atomic import write_text
from rlcore.run_folder.folder import RunFolder
from rlcore_tools.report.page import comparison_page, run_page
from rlcore_tools.report.record import RunRecord, read_run
from rlcore_tools.report.sameness import first_difference
from rlcore_tools.report.sweep import sweep_page
from rlcore_tools.runs.row import Row

__all__ = ["compare_metrics", "write_comparison", "write_page", "write_report", "write_sweep"]


class DoubtWarning(RunWarning):
    """A file of a run that is not the one that the run wrote."""


def write_report(folder: RunFolder, output: Path | None = None) -> Path:
    """The report of one run; returns the file, `report.html` in its folder if `output` is None.

    Raises:
        CheckpointError: a file of the run is damaged.
        ConfigError: `output` can't be written.
    """
    target = (output or folder.report).absolute()
    record = _read(folder)
    return write_page(target, run_page(record, target.parent))


def write_comparison(folders: Sequence[RunFolder], output: Path) -> Path:
    """Several runs against each other; returns the file.

    Raises:
        CheckpointError: a file of a run is damaged.
        ConfigError: `output` can't be written.
    """
    target = output.absolute()
    records = [_read(folder) for folder in folders]
    return write_page(target, comparison_page(records, target.parent))


def write_sweep(rows: Sequence[Row], title: str, output: Path, sweep: Path | None = None) -> Path:
    """Runs compared by their settings, over seeds; returns the file.

    Args:
        rows: the runs.
        title: of the page.
        output: the file.
        sweep: the folder of the sweep that they are of; None: of none.

    Raises:
        ConfigError: `output` can't be written.
    """
    target = output.absolute()
    return write_page(target, sweep_page(title, rows, target.parent, sweep))


def compare_metrics(first: RunFolder, other: RunFolder) -> str:
    """One sentence: whether two runs logged the same metrics, and where they part.

    Raises:
        CheckpointError: a file of a run is damaged.
    """
    ours, theirs = read_run(first).metrics, read_run(other).metrics
    names = f"{first.path} and {other.path}"
    if not ours and not theirs:
        return f"{names} have logged no metrics"
    part = first_difference(ours, theirs)
    if part is None:
        return f"{names} have identical metrics (times aside)"
    return f"{names} have metrics that first differ {part}"


def _read(folder: RunFolder) -> RunRecord:
    """All there is of a run; what is doubtful is marked."""
    record = read_run(folder)
    for doubt in record.doubts:
        warnings.warn(f"{folder.path}: {doubt}", DoubtWarning, stacklevel=3)
    return record


def write_page(target: Path, html: str) -> Path:
    """Write a page; returns the file.

    Raises:
        ConfigError: it can't be written.
    """
    try:
        write_text(target, html)
    except OSError as error:
        raise ConfigError(
            f"the page can't be written to {target}: {error.strerror or error}",
            hint="--output FILE.html, in a folder you may write to",
        ) from error
    return target
