"""What the jobs that are played now have come to: one table in a terminal, lines elsewhere."""

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

from rlcore.terminal.console import Canvas
from rlcore_sweeps.job import JOBS, Note, Playing

COLUMNS = ("job", "swept", "phase", "update", "success", "seconds", "left")
TAIL = 20000  # bytes at the end of a file that are looked at
PHASE = re.compile(r"^([^:\n]+): .*, elapsed [\w. ]+$", re.MULTILINE)
"""A line of :class:`rlcore.session.progress.Progress` on a phase that ended."""


class Board:
    """Shows the jobs that run.

    Args:
        total: how many jobs there are.
    """

    def __init__(self, total: int) -> None:
        self._total = total
        self._live: Live | None = None

    @contextlib.contextmanager
    def shown(self) -> Iterator[Board]:
        """Show it inside."""
        if not sys.stdout.isatty():
            yield self
            return
        with Live(console=Canvas(), auto_refresh=False, transient=True) as self._live:
            yield self
        self._live = None

    def update(self, playing: Sequence[Playing], done: int) -> None:
        """Draw it anew, in a terminal."""
        if self._live is not None:
            self._live.update(_table(playing, f"{done} of {self._total} jobs ended"), refresh=True)

    def say(self, note: Note) -> None:
        """Say that a job starts, or how it ended."""
        if note.state == "running":
            text = f"job {note.number} of {self._total}: {note.label}"
        else:
            text = f"job {note.number} {note.state} after {note.seconds:.0f} s"
            text += f": {note.error}" if note.error else ""
        print(text, flush=True)


def _table(playing: Sequence[Playing], title: str) -> Table:
    table = Table(title=title, title_justify="left")
    for name in COLUMNS:
        table.add_column(name)
    for one in playing:
        folder, log = Path(one.note.folder), one.sweep / JOBS / f"{one.note.number}.log"
        phases = PHASE.findall(_tail(log))
        step, success = _last(folder / "metrics.jsonl")
        seconds, updates = time.monotonic() - one.began, _updates(folder / "config.yaml")
        left = f"{seconds / step * (updates - step):.0f} s" if step and updates else ""
        table.add_row(
            str(one.note.number), one.note.label, phases[-1] if phases else "start",
            f"{step}/{updates}" if updates else "", success, f"{seconds:.0f}", left,
        )  # fmt: skip
    return table


def _last(metrics: Path) -> tuple[int, str]:
    """(update, success) of the last line."""
    for line in reversed(_tail(metrics).splitlines()):
        with contextlib.suppress(ValueError, TypeError, AttributeError):  # or cut off
            row = json.loads(line)
            success = row.get("eval/success_once", row.get("env/success_once"))
            return int(row.get("step", 0)), "" if success is None else f"{success:.3f}"
    return 0, ""


def _updates(config: Path) -> int:
    found = re.search(r"^  max_epochs: (\d+)$", _tail(config, 10**6), re.MULTILINE)
    return int(found[1]) if found else 0


def _tail(file: Path, size: int = TAIL) -> str:
    try:
        with file.open("rb") as stream:
            stream.seek(max(0, file.stat().st_size - size))
            return stream.read().decode(errors="replace")
    except OSError:
        return ""
