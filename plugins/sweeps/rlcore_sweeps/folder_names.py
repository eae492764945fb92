"""Name the folder of each job after the overrides in which jobs differ: `0-seed-1-env-toy`.

The names are valid in every file system, sort by job number within a sweep, and contain no `=`, so
a command line does not mistake one for `key=value`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

LENGTH = 100  # characters; the shortest limit of common file systems is 143 bytes


def folder_suffix(swept: Sequence[str], digits: int) -> str:
    """Return the part of a job's name after its number, with a leading minus; empty if none.

    Args:
        swept: the job's overrides that differ between jobs.
        digits: digits of the job's number, which count towards :data:`LENGTH`.
    """
    short = _short_keys(word.partition("=")[0] for word in swept)
    text = "".join(f"-{_file_name(word, short)}" for word in swept)
    return text[: LENGTH - digits].rstrip("-.")


def _short_keys(keys: Iterable[str]) -> dict[str, str]:
    """Return the shortest suffix of each key that no other key has: `runner.seed` -> `seed`."""
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
    """Return an override as part of a file name: `runner.seed=1` -> `seed-1`.

    Characters of the value other than ASCII letters, digits, `.`, `+` and `-` become `_`.
    """
    key, _, value = word.partition("=")
    return f"{short[key]}-" + re.sub(r"[^A-Za-z0-9.+-]+", "_", value).strip("_")
