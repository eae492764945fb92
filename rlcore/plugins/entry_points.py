"""List the installed plugins in loading order, and mark those that the environment excludes.

Only entry points and distributions are read here, not the components of a plugin.
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
"""Module of the entry point that is always loaded."""
ONLY, BLOCK = "RLCORE_PLUGINS", "RLCORE_BLOCK_PLUGINS"
LEAVE_OUT = f"{BLOCK}=NAME leaves a plugin out"
_SECTION = re.compile(rf"^\s*\[{re.escape(GROUP)}\]\s*$(.*?)(?=^\s*\[|\Z)", re.M | re.S)
_POINT = re.compile(r"^\s*([^\s#=][^=\n]*?)[ \t]*=[ \t]*([\w.]+(?:[ \t]*:[ \t]*[\w.]+)?)", re.M)


@dataclass(frozen=True)
class Installed:
    """An installed plugin.

    Attributes:
        name: name of the entry point.
        value: object that the entry point refers to, `"module"` or `"module:attr"`.
        distribution, version: distribution that declares the entry point; "?" if unknown.
        left_out_by: environment variable that excludes the plugin; empty if none does.
    """

    name: str
    value: str
    distribution: str = "?"
    version: str = "?"
    left_out_by: str = ""

    def load(self) -> Any:
        """Import and return the module or attribute that the entry point refers to."""
        with contextlib.redirect_stdout(sys.stderr):  # stdout is for the output of the command
            name, _, attribute = self.value.partition(":")
            return attrgetter(attribute)(import_module(name)) if attribute else import_module(name)


def installed(
    environ: Mapping[str, str], found: Iterable[Installed] | None = None
) -> list[Installed]:
    """Sort plugins into loading order: core, plugins of rlcore's extras, then third-party ones.

    If two plugins claim the same name, the later one is refused when it is loaded.

    Args:
        environ: environment variables, see :mod:`rlcore.plugins.registry`.
        found: the plugins; None for those installed.

    Returns:
        All of them, with :attr:`Installed.left_out_by` set for those that `environ` excludes.
    """
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
