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
ONLY = "RLCORE_PLUGINS"
BLOCK = "RLCORE_BLOCK_PLUGINS"
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
            module = import_module(name)
            return attrgetter(attribute)(module) if attribute else module


def installed(
    environ: Mapping[str, str], plugins: Iterable[Installed] | None = None
) -> list[Installed]:
    """Sort plugins into loading order: core, plugins of rlcore's extras, then third-party ones.

    If two plugins claim the same name, the later one is refused when it is loaded.

    Args:
        environ: environment variables, see :mod:`rlcore.plugins.registry`.
        plugins: the plugins; None: those that installed distributions declare.

    Returns:
        All of them, with :attr:`Installed.left_out_by` set for those that `environ` excludes.
    """
    only = _listed_names(environ, ONLY)
    blocked = _listed_names(environ, BLOCK)
    marked = [
        replace(plugin, left_out_by=_excluding_variable(plugin, only, blocked))
        for plugin in (_declared_plugins() if plugins is None else plugins)
    ]
    return sorted(marked, key=_loading_order)


def _loading_order(plugin: Installed) -> tuple[Any, ...]:
    is_third_party = not is_ours(plugin.distribution)
    return plugin.value != CORE, is_third_party, plugin.distribution, plugin.version, plugin.name


def _declared_plugins() -> Iterator[Installed]:
    """Yield the plugins that the entry points of installed distributions declare."""
    for folder in folders().values():
        section = _SECTION.search(read(folder, "entry_points.txt"))
        if section:
            metadata = {"Name": "?", "Version": "?", **dict(headers(folder))}
            for name, value in _POINT.findall(section[1]):
                target = value.replace(" ", "")
                yield Installed(name, target, metadata["Name"], metadata["Version"])


def _excluding_variable(plugin: Installed, only: set[str], blocked: set[str]) -> str:
    """Return the environment variable that excludes a plugin; empty if none does."""
    names = {plugin.name, plugin.distribution}
    if plugin.value == CORE:
        return ""
    if names & blocked:
        return BLOCK
    return ONLY if only and not names & only else ""


def _listed_names(environ: Mapping[str, str], variable: str) -> set[str]:
    return {name.strip() for name in environ.get(variable, "").split(",") if name.strip()}
