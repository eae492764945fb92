"""Compare the configuration, versions and results of two runs: `rlcore runs diff`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rlcore.api import protocol_difference
from rlcore.config.differences import differences
from rlcore.runs.statistics import paired_difference
from rlcore.runs.tables import comparable, success_by_start
from rlcore.utils.text import format_value
from rlcore_tools.runs.folders import row_of
from rlcore_tools.runs.record import RunRecord, Values
from rlcore_tools.runs.table import aligned, difference, rate
from rlcore_tools.text import one_line

UNCOMPARED = ("recipe", "runner.logger")
"""Sections with names and folders, in which any two runs differ."""


def comparison_of(first: Path, other: Path) -> dict[str, Any]:
    """Compare two runs.

    Args:
        first, other: their folders.

    Returns:
        values that JSON can represent: `runs`, the row of each; `config` and `versions`, the pair
        of values by key or name, where they differ; `after`, final success rate of the other run
        minus that of the first, paired by start, as `{mean, lo, hi}`, or None; `why`, why these
        can't be paired.

    Raises:
        CheckpointError: a table of episodes is damaged.
    """
    rows = row_of(first), row_of(other)
    config = differences(*(row.config for row in rows), ignore=UNCOMPARED)
    versions = differences(*(row.versions for row in rows))
    after, why = _paired(rows[0].record, rows[1].record)
    return {
        "runs": [row.as_values() for row in rows],
        "config": {key.path: key.values for key in config},
        "versions": {name.path: name.values for name in versions},
        "after": after,
        "why": why,
    }


def lines_of(comparison: Values) -> list[str]:
    """Format the result of :func:`comparison_of` as lines of text."""
    runs = comparison["runs"]
    results = {
        "state": [run["state"] for run in runs],
        "before": [rate(run["before"]) for run in runs],
        "after": [rate(run["after"]) for run in runs],
        "difference": [difference(run["difference"]) for run in runs],
    }
    measured = {name: texts for name, texts in results.items() if any(texts)}
    after = comparison["after"]
    paired = f"{difference(after)} on the same starts"
    if after is None:
        paired = f"not paired: {comparison['why']}"
    return [
        f"A  {runs[0]['folder']}",
        f"B  {runs[1]['folder']}",
        "",
        *_table("configuration", comparison["config"], "equal, except names and folders"),
        *_table("versions", comparison["versions"], "equal"),
        *_table("results", measured, ""),
        f"after, B - A: {paired}",
    ]


def _table(title: str, pairs: Mapping[str, Sequence[Any]], if_empty: str) -> list[str]:
    if not pairs:
        return [f"{title}: {if_empty}", ""]
    columns = {title: list(pairs)}
    for number, run in enumerate("AB"):
        columns[run] = [_cell(values[number]) for values in pairs.values()]
    return [*aligned(columns).splitlines(), ""]


def _cell(value: Any) -> str:
    return "-" if value is None else one_line(format_value(value))


def _paired(first: RunRecord, other: RunRecord) -> tuple[Values | None, str]:
    """Return the paired difference of the final success rates, or why they can't be paired."""
    ours = first.after
    theirs = other.after
    if ours is None or theirs is None:
        return None, f"{'A' if ours is None else 'B'} was not evaluated at its end"
    if not comparable(ours, theirs):
        rules = protocol_difference(first.protocol, other.protocol) or "unknown rules"
        return None, f"they were evaluated under different protocols: {rules}"
    try:
        difference = paired_difference(success_by_start(ours), success_by_start(theirs))
    except ValueError as error:
        return None, str(error)
    return difference._asdict(), ""
