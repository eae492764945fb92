"""Format numbers and values."""

from __future__ import annotations

from typing import Any

from rlcore.terminal.text import plain, written


def one_line(text: str) -> str:
    """A text with whatever is no letter of a line spelled out."""
    if text.isprintable():
        return text
    return plain(text).replace("\n", "\\n").replace("\t", "\\t")


def cut(text: str, most: int) -> str:
    """A text in so many characters."""
    return text if len(text) <= most else f"{text[: most - 3]}..."


def rounded(value: Any) -> str:
    """A value as on a command line; of a number with a point five digits that matter."""
    return f"{value:.5g}" if isinstance(value, float) else written(value)
