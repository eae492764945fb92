"""Check each number of a section against the range that its key declares. Light."""

from __future__ import annotations

from collections.abc import Iterator

from rlcore.config import schema_tree


def range_violations(section: object) -> Iterator[str]:
    """Yield a sentence for each number in a section that is outside its key's range.

    Null counts as in range.
    """
    for key in schema_tree.walk(section):
        for value in schema_tree.values_of(key.value):
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                continue
            if value not in key.range:
                largest = key.range.magnitude_limit
                bound = f"at most {largest}" if value > largest else key.range
                bound = f"at least -{largest}" if value < -largest else bound
                yield f"{key.path} must be {bound}, got {value}"
