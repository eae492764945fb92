"""Format values, names and numbers for messages. Knows nothing of what they mean. Light."""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any

CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""What steers a terminal, turns the order of letters round, or can't be encoded; not the line's end
and the tabulator."""


def plain(text: str) -> str:
    r"""The text with control characters spelled out (`\x1b`): they move the cursor, recolour or
    rename a terminal, and what we print holds names and texts that others chose."""
    return CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def written(value: Any) -> str:
    """Write a value as one would write it in a configuration or on the command line."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(written, value))}]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name}: {written(each)}" for name, each in value.items()) + "}"
    return str(value)


def raised(error: BaseException, trace: TracebackType | None) -> str:
    """Say in one line what was raised and where, unless Python's import itself did; below it stands
    the traceback from a frame on."""
    told = traceback.TracebackException(type(error), error, trace)
    what = " ".join(f"{type(error).__name__}: {told}".split()).removesuffix(":")
    last = [at for at in told.stack[-1:] if not at.filename.startswith("<frozen ")]
    where = "".join(f" ({at.filename}:{at.lineno})" for at in last)
    return f"{what}{where}\n{''.join(told.format()).rstrip()}"


def short(value: object, most: int = 80) -> str:
    """Write any value for an error, in at most so many characters."""
    try:
        text = repr(value)
    except Exception:  # a stranger's object
        text = object.__repr__(value)
    return text if len(text) <= most else f"{text[: most - 3]}..."


def duration(seconds: float) -> str:
    """`0.4 s`, `12 s`, `3 min 20 s`, `2 h 5 min`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def some(names: Sequence[str], most: int = 8) -> str:
    """Name the first of them, and how many more there are: `a, b and 3 more`."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def spans(numbers: Iterable[int], to: str = "-", between: str = ",") -> str:
    """Shorten `0, 1, 2, 2, 5` -> `0-2,5`."""
    found: list[list[int]] = []
    for number in sorted({*numbers}):
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return between.join(str(a) if a == b else f"{a}{to}{b}" for a, b in found)
