"""List the installed plugins in loading order, and say which ones are excluded.

Knows their entry points and distributions; nothing of what a plugin offers.
"""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from rlcore.plugins.extras import is_ours

GROUP = "rlcore.plugins"
CORE = "rlcore.plugins.builtin"
"""The entry point that is always loaded."""
ONLY, BLOCK = "RLCORE_PLUGINS", "RLCORE_BLOCK_PLUGINS"
LEAVE_OUT = f"{BLOCK}=NAME leaves a plugin out"


@dataclass(frozen=True)
class Installed:
    """A plugin that is installed.

    Attributes:
        name: of its entry point.
        distribution, version: where that is from; "?" for one made by hand.
        point: the entry point.
        left_out_by: the environment variable that leaves it out; empty if none does.
    """

    name: str
    distribution: str
    version: str
    point: EntryPoint
    left_out_by: str = ""

    def load(self) -> Any:
        """Import its module."""
        with contextlib.redirect_stdout(sys.stderr):  # what a command prints is its own
            return self.point.load()


def installed(
    environ: Mapping[str, str], found: Iterable[EntryPoint] | None = None
) -> list[Installed]:
    """The plugins of the entry points `found` (those installed, if None): core's, those that its
    extras bring, then strangers'. Of two that claim one name the later one is to be left out."""
    only, blocked = _names(environ, ONLY), _names(environ, BLOCK)
    points = entry_points(group=GROUP) if found is None else found
    made = [_installed(point, only, blocked) for point in points]
    return sorted(
        made,
        key=lambda p: (
            p.point.value != CORE, not is_ours(p.distribution), p.distribution, p.version, p.name
        ),
    )  # fmt: skip


def _installed(point: EntryPoint, only: set[str], blocked: set[str]) -> Installed:
    # both are in one file, which takes longer to parse than to look at its first lines
    raw = point.dist.read_text("METADATA") or point.dist.read_text("PKG-INFO") if point.dist else ""
    found = dict(re.findall(r"^(Name|Version): *(.+)", raw or "", re.M)[:2])
    distribution, version = found.get("Name", "?"), found.get("Version", "?")
    names = {point.name, distribution}
    excluding = BLOCK if names & blocked else ONLY if only and not names & only else ""
    left_out_by = "" if point.value == CORE else excluding
    return Installed(point.name, distribution, version, point, left_out_by)


def _names(environ: Mapping[str, str], variable: str) -> set[str]:
    return {name.strip() for name in environ.get(variable, "").split(",") if name.strip()}
