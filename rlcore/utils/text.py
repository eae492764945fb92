"""Format values, names and numbers for messages. Light."""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any

CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""Characters that control a terminal, change the direction of text or can't be encoded.

The line feed and the tabulator are not among them.
"""


def strip_control(text: str) -> str:
    r"""Return the text with its control characters escaped (`\x1b`).

    Messages contain names and texts from outside, which must not control the terminal.
    """
    return CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)


def format_value(value: Any) -> str:
    """Format a value as in a configuration file or on the command line."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(format_value, value))}]"
    if isinstance(value, Mapping):
        return (
            "{" + ", ".join(f"{name}: {format_value(entry)}" for name, entry in value.items()) + "}"
        )
    return str(value)


def format_exception(error: BaseException, trace: TracebackType | None) -> str:
    """Format an exception: one line with its message and place, then the traceback.

    The place is omitted if the innermost frame is Python's import system.

    Args:
        trace: first frame of the traceback to print.
    """
    exception = traceback.TracebackException(type(error), error, trace)
    summary = " ".join(f"{type(error).__name__}: {exception}".split()).removesuffix(":")
    innermost = [
        frame for frame in exception.stack[-1:] if not frame.filename.startswith("<frozen ")
    ]
    location = "".join(f" ({frame.filename}:{frame.lineno})" for frame in innermost)
    return f"{summary}{location}\n{''.join(exception.format()).rstrip()}"


def shorten(value: object, most: int = 80) -> str:
    """Format any value for an error message, in `most` characters at most."""
    try:
        text = repr(value)
    except Exception:  # an object of foreign code may have a faulty __repr__
        text = object.__repr__(value)
    return text if len(text) <= most else f"{text[: most - 3]}..."


def format_duration(seconds: float) -> str:
    """Format a duration: `0.4 s`, `12 s`, `3 min 20 s`, `2 h 5 min`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def abbreviate_list(names: Sequence[str], most: int = 8) -> str:
    """List the first `most` names, and the number of further ones: `a, b and 3 more`."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def format_ranges(numbers: Iterable[int], to: str = "-", between: str = ",") -> str:
    """Format integers as ranges: `0, 1, 2, 2, 5` -> `0-2,5`."""
    ranges: list[list[int]] = []
    for number in sorted({*numbers}):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return between.join(
        str(first) if first == last else f"{first}{to}{last}" for first, last in ranges
    )
