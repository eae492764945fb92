"""Which extra of rlcore ships what, read from the installed metadata.

Core names no plugin: the extras of the distribution do, through the naming of what they require
(`rlcore-env-NAME`, `rlcore-model-NAME`, `rlcore-algo-NAME`).
"""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, requires

DISTRIBUTION = "rlcore"
PREFIXES = {"env": "rlcore-env-", "model": "rlcore-model-", "algorithm": "rlcore-algo-"}
_REQUIREMENT = re.compile(r"""^\s*([\w.-]+).*;.*\bextra\s*==\s*['"]([\w.-]+)['"]""")


def extra_that_ships(kind: str, name: str, loaded: Collection[str]) -> str | None:
    """The extra to install for `kind` `name`, or None where none is known.

    A name belongs to an extra that requires a distribution of this kind called like it, or like
    its beginning (`NAME_50` belongs to `NAME`). An extra whose distribution is among
    `loaded` (names of those already loaded) is not the answer.
    """
    best: tuple[int, int, str] | None = None
    for extra, distributions in extras().items():
        for distribution in distributions:
            if not distribution.startswith(PREFIXES.get(kind, "\0")) or distribution in loaded:
                continue
            short = short_name(distribution)
            if belongs(name, short):
                # the longest name that fits; then the extra that brings the least
                rank = (-len(short), len(distributions), extra)
                best = rank if best is None else min(best, rank)
    return None if best is None else best[2]


def absent_extras(kind: str, loaded: Collection[str]) -> list[str]:
    """Extras that ship a distribution of `kind` which is not among `loaded`."""
    prefix = PREFIXES.get(kind, "\0")
    return sorted(
        extra
        for extra, distributions in extras().items()
        if any(d.startswith(prefix) and d not in loaded for d in distributions)
    )


def belongs(name: str, owner: str) -> bool:
    """Whether `name` is `owner` or begins with it: `foo_50` belongs to `foo`."""
    name, owner = _normal(name), _normal(owner)
    return name == owner or name.startswith(f"{owner}-")


def short_name(distribution: str) -> str:
    """`rlcore-env-foo` -> `foo`; names of other shapes stay."""
    name = _normal(distribution)
    for prefix in PREFIXES.values():
        name = name.removeprefix(prefix)
    return name


@lru_cache(maxsize=1)
def extras() -> dict[str, tuple[str, ...]]:
    """`{extra: distributions it requires}` of the installed rlcore."""
    found: dict[str, list[str]] = {}
    try:
        lines = requires(DISTRIBUTION) or []
    except PackageNotFoundError:  # run from a source tree that was never installed
        return {}
    for line in lines:
        match = _REQUIREMENT.match(line)
        if match:
            found.setdefault(match[2], []).append(_normal(match[1]))
    return {extra: tuple(names) for extra, names in found.items()}


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
