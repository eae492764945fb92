"""Compose the configuration: `compose(["env=NAME", ...])` gives the frozen, typed
:class:`RunConfig`.

Names are loaded on first use, so that listing plugins does not load Hydra.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlcore.config.compose import compose, load, to_yaml
    from rlcore.config.old_names import ConfigWarning
    from rlcore.config.schema import RunConfig

__all__ = ["ConfigWarning", "RunConfig", "compose", "load", "to_yaml"]

_HOMES = {
    "ConfigWarning": "old_names",
    "RunConfig": "schema",
    "compose": "compose",
    "load": "compose",
    "to_yaml": "compose",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
