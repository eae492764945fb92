"""Format numbers and values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rlcore.utils.text import format_value, strip_control


def one_line(text: str) -> str:
    """Return a text in one line, with line breaks, tabs and control characters escaped."""
    if text.isprintable():
        return text
    return strip_control(text).replace("\n", "\\n").replace("\t", "\\t")


def cut(text: str, most: int) -> str:
    """Return a text of at most `most` characters, shortened with "..." if necessary."""
    return text if len(text) <= most else f"{text[: most - 3]}..."


def rounded(value: Any) -> str:
    """Return a value as written on a command line; floats with five significant digits."""
    return f"{value:.5g}" if isinstance(value, float) else format_value(value)


def unique_suffixes(names: Sequence[str], separator: str) -> list[str]:
    """Return the shortest suffix of each name that is no suffix of another name.

    A name that is the suffix of another, or equal to another, is returned as a whole.

    Args:
        names: names that consist of parts.
        separator: what separates the parts.
    """
    suffixes = []
    for name in names:
        parts = name.split(separator)
        candidates = (separator.join(parts[-length:]) for length in range(1, len(parts) + 1))
        suffixes.append(
            next(
                (
                    suffix
                    for suffix in candidates
                    if sum((separator + text).endswith(separator + suffix) for text in names) == 1
                ),
                name,
            )
        )
    return suffixes
