"""Name the folder of each job, after what tells it from the others: `0-seed-1-env-toy`.

All file systems take such a name, those of a sweep sort by number, and no command line takes one
for `key=value`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

LENGTH = 100  # characters; the shortest limit of common file systems is 143 bytes


def name_of(swept: Sequence[str], digits: int) -> str:
    """What follows the number in a job's name, with a minus before it; empty where nothing is.

    Args:
        swept: its words that differ between jobs.
        digits: how many the number takes.
    """
    short = _short_keys(word.partition("=")[0] for word in swept)
    text = "".join(f"-{_file_name(word, short)}" for word in swept)
    return text[: LENGTH - digits].rstrip("-.")


def _short_keys(keys: Iterable[str]) -> dict[str, str]:
    """The end of each key that tells it from the others: `runner.seed` -> `seed`."""
    short: dict[str, str] = {}
    keys = list(keys)
    for key in keys:
        parts = re.split("[./]", key.lstrip("+~").replace("*", "both"))
        ends = ["-".join(parts[start:]) for start in range(len(parts) - 1, -1, -1)]
        others = ["-" + "-".join(re.split("[./]", other)) for other in keys if other != key]
        unique = [end for end in ends if not any(other.endswith(f"-{end}") for other in others)]
        short[key] = unique[0] if unique else ends[-1]
    return short


def _file_name(word: str, short: dict[str, str]) -> str:
    """`runner.seed=1` -> `seed-1`: letters, digits, point, minus, plus and underscore alone."""
    key, _, value = word.partition("=")
    return f"{short[key]}-" + re.sub(r"[^A-Za-z0-9.+-]+", "_", value).strip("_")
