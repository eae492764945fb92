"""Format numbers and values."""

from __future__ import annotations

from typing import Any

from rlcore.terminal.text import plain, written


def duration(seconds: float) -> str:
    """`0.4 s`, `12 s`, `3 min 20 s`, `2 h 5 min`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def one_line(text: str) -> str:
    """A text with whatever is no letter of a line spelled out."""
    return plain(text).replace("\n", "\\n").replace("\t", "\\t")


def rounded(value: Any) -> str:
    """A value as on a command line; of a number with a point five digits that matter."""
    return f"{value:.5g}" if isinstance(value, float) else written(value)
