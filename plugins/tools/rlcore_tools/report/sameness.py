"""Compare the logged metrics of two runs; they are equal if a run was reproduced exactly."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

Line = dict[str, float | None]


def untimed(lines: Sequence[Line]) -> list[Line]:
    """Return lines of `metrics.jsonl` without times and rates per second."""
    return [{name: value for name, value in line.items() if not _timed(name)} for line in lines]


def first_difference(first: Sequence[Line], second: Sequence[Line]) -> str | None:
    """Describe the first difference between the metrics of two runs.

    Values must be exactly equal, except times and rates per second, which are ignored.

    Returns:
        description of the first difference; None if the metrics are equal.
    """
    for line, other_line in zip_longest(untimed(first), untimed(second)):
        if line is None or other_line is None:
            longer = "the second" if line is None else "the first"
            return f"only {longer} continues, with step {_number((line or other_line)['step'])}"
        for name in {**line, **other_line}:
            if name not in line or name not in other_line or line[name] != other_line[name]:
                return (
                    f"at step {_number(line['step'])}, {name}: "
                    f"{_number(line.get(name, 'none'))} and {_number(other_line.get(name, 'none'))}"
                )
    return None


def _timed(name: str) -> bool:
    return name == "time" or name.startswith("time/") or name.endswith("_per_second")


def _number(value: float | str | None) -> str:
    return "not a number" if value is None else str(value)
