"""Format rows as a text table, with one line per run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from rich.cells import cell_len, set_cell_size

from rlcore.utils.text import format_duration, format_value
from rlcore_tools.runs.record import Values
from rlcore_tools.runs.row import Row
from rlcore_tools.text import cut, one_line

LONGEST = 100  # characters of a reason or value
GAP = "  "


def table_of(rows: Sequence[Row], keys: Sequence[str] = ()) -> str:
    """Return a table of runs, and a line with their number by state. Empty columns are left out.

    Args:
        rows: the runs.
        keys: keys of the configuration that are shown as further columns.
    """
    columns: dict[str, Callable[[Row], str]] = {
        "run": lambda row: row.name,
        "state": lambda row: row.state,
        **{key: lambda row, key=key: _value(row.value(key)) for key in keys},  # type: ignore[misc]
        "update": progress,
        "before": lambda row: rate(row.before),
        "after": lambda row: rate(row.after),
        "difference": lambda row: difference(row.difference),
        "time": lambda row: "" if row.seconds is None else format_duration(row.seconds),
        "commit": lambda row: row.commit,
        "": note,
    }
    cells = {
        name: [one_line(format_cell(row)) for row in rows] for name, format_cell in columns.items()
    }
    filled = {name: texts for name, texts in cells.items() if any(texts)}
    return f"{aligned(filled)}{counts(rows)}\n"


def counts(rows: Sequence[Row]) -> str:
    """Format the number of runs, in total and by state: `3 runs: 2 finished, 1 failed`."""
    states = Counter(row.state for row in rows)
    by_state = ", ".join(f"{count} {state}" for state, count in states.items())
    return f"{len(rows)} runs: {by_state or 'none'}"


def aligned(columns: dict[str, list[str]]) -> str:
    """Format columns of text, by heading, each as wide as its widest cell on a terminal."""
    padded = []
    for name, texts in columns.items():
        width = max(map(cell_len, (name, *texts)))
        padded.append([set_cell_size(text, width) for text in (name, *texts)])
    return "".join(f"{GAP.join(line).rstrip()}\n" for line in zip(*padded, strict=True))


def rate(figures: Values | None) -> str:
    """Format a rate with its interval, if it has one: `0.750 [0.301, 0.954]`; "" for None."""
    if figures is None:
        return ""
    interval = " [{lo:.3f}, {hi:.3f}]".format(**figures) if "lo" in figures else ""
    return f"{figures['rate']:.3f}{interval}"


def difference(figures: Values | None) -> str:
    """Format a difference with its interval: `+0.500 [-0.100, +1.000]`; "" for None."""
    return "" if figures is None else "{mean:+.3f} [{lo:+.3f}, {hi:+.3f}]".format(**figures)


def note(row: Row) -> str:
    """Return a run's last logged success rate, remaining time and reason, as far as known."""
    parts = []
    if row.state != "finished" and row.success is not None:
        parts.append(f"success {row.success:.2f}")
    if row.left is not None:
        parts.append(f"{format_duration(row.left)} left")
    if row.reason:
        parts.append(cut(row.reason.strip().partition("\n")[0], LONGEST))
    return ", ".join(parts)


def progress(row: Row, of: str = "/") -> str:
    """Format what an unfinished run has made: `2/8` updates, or `sft 400/1000` supervised steps;
    "" if that is unknown."""
    if row.sft_step is not None:
        step = f"sft {row.sft_step}"
        return step if row.sft_steps is None else f"{step}{of}{row.sft_steps}"
    if row.update is None:
        return ""
    return str(row.update) if row.updates is None else f"{row.update}{of}{row.updates}"


def _value(value: Any) -> str:
    return "" if value is None else cut(format_value(value), LONGEST)
