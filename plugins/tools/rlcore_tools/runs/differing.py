"""Compare the configuration, versions and results of two runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlcore.config.differences import differences
from rlcore.results.statistics import paired_difference
from rlcore.results.tables import comparable, read_results, success_by_start
from rlcore.terminal.text import format_value
from rlcore_tools.places import last_evaluation
from rlcore_tools.runs.folders import row_of
from rlcore_tools.runs.one import versions_of
from rlcore_tools.runs.row import Row
from rlcore_tools.runs.rules import unlike_rules
from rlcore_tools.runs.table import aligned, difference, rate
from rlcore_tools.text import one_line

Pairs = Mapping[str, tuple[Any, Any]]
PLACES = ("recipe", "runner.logger")


@dataclass(frozen=True)
class Differing:
    """Differences between two runs.

    Attributes:
        rows: rows of the first and the other run.
        config: `{key: (first, other)}` of differing values, except those of `PLACES`.
        versions: `{name: (first, other)}` of differing versions of packages and Python, devices
            and commits.
        after: final success rate of the other run minus that of the first, paired by start, as
            `{mean, lo, hi}`; None if they can't be paired.
        why: why they can't be paired; empty if they can.
    """

    rows: tuple[Row, Row]
    config: Pairs
    versions: Pairs
    after: Mapping[str, float] | None
    why: str

    @classmethod
    def between(cls, first: Path, other: Path) -> Differing:
        """Compare two runs.

        Args:
            first, other: their folders.

        Raises:
            CheckpointError: a table of episodes is damaged.
        """
        rows = row_of(first), row_of(other)
        found = differences(rows[0].config, rows[1].config, ignore=PLACES)
        ours, theirs = versions_of(first), versions_of(other)
        ours["commit"], theirs["commit"] = rows[0].commit, rows[1].commit
        versions = {
            name: (ours.get(name), theirs.get(name))
            for name in {**ours, **theirs}
            if ours.get(name) != theirs.get(name)
        }
        after, why = _paired(first, other)
        config = {one.path: (one.values[0], one.values[1]) for one in found}
        return cls(rows, config, versions, after, why)

    def as_values(self) -> dict[str, Any]:
        """Return the comparison as values that JSON can represent."""
        return {
            "runs": [row.as_values() for row in self.rows],
            "config": self.config,
            "versions": self.versions,
            "after": self.after,
            "why": self.why,
        }

    def lines(self) -> list[str]:
        """Return the comparison as lines of text."""
        lines = [f"A  {self.rows[0].folder}", f"B  {self.rows[1].folder}", ""]
        lines += _table("configuration", self.config, "equal, names and folders aside")
        lines += _table("versions", self.versions, "equal")
        results = {
            "state": tuple(row.state for row in self.rows),
            "before": tuple(rate(row.before) for row in self.rows),
            "after": tuple(rate(row.after) for row in self.rows),
            "difference": tuple(difference(row.difference) for row in self.rows),
        }
        lines += _table("results", {name: both for name, both in results.items() if any(both)}, "")
        if self.after is not None:
            return [*lines, f"after, B - A: {difference(self.after)} on the same starts"]
        return [*lines, f"after, B - A: not paired: {self.why}"]


def _table(title: str, pairs: Mapping[str, tuple[Any, ...]], none: str) -> list[str]:
    if not pairs:
        return [f"{title}: {none}", ""]
    columns = {title: list(pairs)}
    for number, name in enumerate("AB"):
        columns[name] = [_cell(both[number]) for both in pairs.values()]
    return [*aligned(columns).splitlines(), ""]


def _cell(value: Any) -> str:
    return "-" if value is None else one_line(format_value(value))


def _paired(first: Path, other: Path) -> tuple[Mapping[str, float] | None, str]:
    files = last_evaluation(first / "eval"), last_evaluation(other / "eval")
    if files[0] is None or files[1] is None:
        return None, f"{'A' if files[0] is None else 'B'} was not evaluated at its end"
    ours, theirs = read_results(files[0]), read_results(files[1])
    if not comparable(ours, theirs):
        return None, f"they were evaluated by other rules: {unlike_rules(files[0], files[1])}"
    try:
        return paired_difference(success_by_start(ours), success_by_start(theirs))._asdict(), ""
    except ValueError as error:
        return None, str(error)
