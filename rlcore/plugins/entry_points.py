"""List the installed plugins in loading order, and say which ones are excluded.

Knows their entry points and distributions; nothing of what a plugin offers.
"""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from operator import attrgetter
from typing import Any

from rlcore.plugins.distributions import folders, headers, read
from rlcore.plugins.extras import is_ours

GROUP = "rlcore.plugins"
CORE = "rlcore.plugins.builtin"
"""The entry point that is always loaded."""
ONLY, BLOCK = "RLCORE_PLUGINS", "RLCORE_BLOCK_PLUGINS"
LEAVE_OUT = f"{BLOCK}=NAME leaves a plugin out"
_SECTION = re.compile(rf"^\s*\[{re.escape(GROUP)}\]\s*$(.*?)(?=^\s*\[|\Z)", re.M | re.S)
_POINT = re.compile(r"^\s*([^\s#=][^=\n]*?)[ \t]*=[ \t]*([\w.]+(?:[ \t]*:[ \t]*[\w.]+)?)", re.M)


@dataclass(frozen=True)
class Installed:
    """A plugin that is installed.

    Attributes:
        name: of its entry point.
        value: `"module"` or `"module:attr"`, which it names.
        distribution, version: where that is from; "?" for one made by hand.
        left_out_by: the environment variable that leaves it out; empty if none does.
    """

    name: str
    value: str
    distribution: str = "?"
    version: str = "?"
    left_out_by: str = ""

    def load(self) -> Any:
        """Import its module."""
        with contextlib.redirect_stdout(sys.stderr):  # what a command prints is its own
            name, _, attribute = self.value.partition(":")
            return attrgetter(attribute)(import_module(name)) if attribute else import_module(name)


def installed(
    environ: Mapping[str, str], found: Iterable[Installed] | None = None
) -> list[Installed]:
    """The plugins `found` (those installed, if None): core's, those that its extras bring, then
    strangers'. Of two that claim one name the later one is to be left out."""
    only, blocked = _names(environ, ONLY), _names(environ, BLOCK)
    made = [_chosen(one, only, blocked) for one in (_declared() if found is None else found)]
    return sorted(
        made,
        key=lambda p: (
            p.value != CORE, not is_ours(p.distribution), p.distribution, p.version, p.name
        ),
    )  # fmt: skip


def _declared() -> Iterator[Installed]:
    for place in folders().values():
        section = _SECTION.search(read(place, "entry_points.txt"))
        if section:
            known = {"Name": "?", "Version": "?", **dict(headers(place))}
            for name, value in _POINT.findall(section[1]):
                yield Installed(name, value.replace(" ", ""), known["Name"], known["Version"])


def _chosen(plugin: Installed, only: set[str], blocked: set[str]) -> Installed:
    names = {plugin.name, plugin.distribution}
    excluding = BLOCK if names & blocked else ONLY if only and not names & only else ""
    return replace(plugin, left_out_by="" if plugin.value == CORE else excluding)


def _names(environ: Mapping[str, str], variable: str) -> set[str]:
    return {name.strip() for name in environ.get(variable, "").split(",") if name.strip()}
