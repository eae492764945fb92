"""Check what a plugin declares: the API version it was written for, and the components it lists.

Each plugin is checked by itself; :mod:`rlcore.plugins.registry` finds and loads plugins.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import fields
from typing import Any

from rlcore.contracts.component import KINDS, ComponentSpec, SimulatorVersions
from rlcore.contracts.errors import PluginError, did_you_mean
from rlcore.contracts.version import API_VERSION

_NAME = re.compile(r"\w[\w.+-]*")


def require_api(module: Any, distribution: str) -> None:
    """Refuse a plugin that was written for an incompatible version of the plugin API.

    While the major version is 0, every minor version may break compatibility. From 1 on, a plugin
    works with its own minor version and all later ones.

    Args:
        module: imported module of the plugin.
        distribution: distribution of the plugin, named in the command that upgrades it.

    Raises:
        PluginError: the versions are incompatible, or the module has no valid `RLCORE_API`.
    """
    api = getattr(module, "RLCORE_API", None)  # a third-party module may lack the name
    if not (isinstance(api, tuple) and len(api) == 2 and all(isinstance(n, int) for n in api)):
        raise PluginError(f"has no RLCORE_API = (major, minor), found {api!r}")
    major, minor = API_VERSION
    if api[0] != major or api[1] > minor or (major == 0 and api[1] != minor):
        outdated = distribution if api < API_VERSION else "rlcore"
        raise PluginError(
            f"asks for plugin API {api[0]}.{api[1]}, this rlcore offers {major}.{minor}: "
            f"pip install --upgrade {outdated}"
        )


def problem_of(spec: Any) -> str:
    """Return why an item of `rlcore_components` can't be registered; empty if it can."""
    if not isinstance(spec, ComponentSpec):
        return f"rlcore_components listed a {type(spec).__name__}, not a ComponentSpec"
    for field in fields(spec):
        value = getattr(spec, field.name)
        if field.name == "tested":
            if problem := _problem_of_tested(value):
                return problem
        elif isinstance(field.default, tuple):
            if not (isinstance(value, tuple) and all(isinstance(text, str) for text in value)):
                return f"{field.name} of a component must be a tuple of strings, got {value!r}"
        elif not isinstance(value, str) and not (value is None and field.default is None):
            return f"{field.name} of a component must be a string, got {type(value).__name__}"
        if field.name in ("target", "config", "spec") and value is not None:
            module, _, attribute = value.partition(":")
            if not module or not attribute.isidentifier():
                return f"{field.name} must read 'module:attr', got {value!r}"
    if spec.kind not in KINDS:
        guess = did_you_mean(spec.kind, KINDS)
        return f"kind must be one of {', '.join(KINDS)}, got {spec.kind!r}.{guess}"
    if not _NAME.fullmatch(spec.name):
        return f"a name consists of letters, digits, _ . + and -, got {spec.name!r}"
    return ""


def _problem_of_tested(value: Any) -> str:
    if not (
        isinstance(value, tuple)
        and all(isinstance(versions, SimulatorVersions) for versions in value)
    ):
        return f"tested of a component must be a tuple of SimulatorVersions, got {value!r}"
    return ""


def unknown_hook(name: str, known: Iterable[str]) -> str:
    """Return the error message for a hook that has no specification.

    Args:
        known: names of all specified hooks, to suggest the nearest one.
    """
    return f"unknown hook {name}.{did_you_mean(name, known)}"
