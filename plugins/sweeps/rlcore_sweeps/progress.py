"""Show the progress of running jobs: a live table in a terminal, plain lines otherwise."""

from __future__ import annotations

import contextlib
import json
import re
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.live import Live
from rich.table import Table

from rlcore.utils.console import Canvas
from rlcore_sweeps.job import RunningJob
from rlcore_sweeps.job_record import JOBS, JobRecord

COLUMNS = ("job", "swept", "phase", "update", "success", "seconds", "left")
TAIL = 20000  # bytes read from the end of a file
PHASE = re.compile(r"^([^:\n]+): .*, elapsed [\w. ]+$", re.MULTILINE)
"""A line that :class:`rlcore.training.progress.Progress` prints when a phase ends."""


class ProgressTable:
    """A live table of the running jobs.

    Args:
        total: number of jobs of the sweep.
    """

    def __init__(self, total: int) -> None:
        self._total = total
        self._live: Live | None = None

    @contextlib.contextmanager
    def drawn(self) -> Iterator[ProgressTable]:
        """Show the table within the context; without a terminal nothing is drawn."""
        if not sys.stdout.isatty():
            yield self
            return
        with Live(console=Canvas(), auto_refresh=False, transient=True) as self._live:
            yield self
        self._live = None

    def update(self, running: Sequence[RunningJob], done: int) -> None:
        """Redraw the table, if it is shown.

        Args:
            running: the running jobs.
            done: number of jobs that ended.
        """
        if self._live is not None:
            self._live.update(_table(running, f"{done} of {self._total} jobs ended"), refresh=True)

    def print_line(self, record: JobRecord) -> None:
        """Print a line when a job starts or ends."""
        if record.state == "running":
            text = f"job {record.number} of {self._total}: {record.label}"
        else:
            text = f"job {record.number} {record.state} after {record.seconds:.0f} s"
            text += f": {record.error}" if record.error else ""
        print(text, flush=True)


def _table(running: Sequence[RunningJob], title: str) -> Table:
    table = Table(title=title, title_justify="left")
    for name in COLUMNS:
        table.add_column(name)
    for job in running:
        folder = Path(job.record.folder)
        log = job.sweep / JOBS / f"{job.record.number}.log"
        phases = PHASE.findall(_tail(log))
        step, success = _last(folder / "metrics.jsonl")
        seconds = time.monotonic() - job.began
        updates = _updates(folder / "config.yaml")
        remaining = f"{seconds / step * (updates - step):.0f} s" if step and updates else ""
        table.add_row(
            str(job.record.number),
            job.record.label,
            phases[-1] if phases else "start",
            f"{step}/{updates}" if updates else "",
            success,
            f"{seconds:.0f}",
            remaining,
        )
    return table


def _last(metrics: Path) -> tuple[int, str]:
    """Return (update, success rate as text) of the last whole line; (0, "") if there is none."""
    for line in reversed(_tail(metrics).splitlines()):
        with contextlib.suppress(ValueError, TypeError, AttributeError):  # the line may be cut off
            row = json.loads(line)
            success = row.get("eval/success_once", row.get("env/success_once"))
            return int(row.get("step", 0)), "" if success is None else f"{success:.3f}"
    return 0, ""


def _updates(config: Path) -> int:
    """Return `runner.max_epochs` of a run's config.yaml, or 0 if it cannot be read from it."""
    match = re.search(r"^  max_epochs: (\d+)$", _tail(config, 10**6), re.MULTILINE)
    return int(match[1]) if match else 0


def _tail(file: Path, size: int = TAIL) -> str:
    """Return the last `size` bytes of a file as text; empty if the file cannot be read."""
    try:
        with file.open("rb") as stream:
            stream.seek(max(0, file.stat().st_size - size))
            return stream.read().decode(errors="replace")
    except OSError:
        return ""
