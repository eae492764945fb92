"""Keys of `plugins`: settings of installed plugins, besides those of their components."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, make_dataclass
from functools import lru_cache
from typing import Any

from rlcore.config.schema.keys import Settings, key


@dataclass
class PluginConfig(Settings):
    """Settings of a plugin; its own dataclass adds keys."""

    enabled: bool = key("call its hooks in this run", True)


@dataclass
class PluginsConfig(Settings):
    """Settings of plugins, by the names of their entry points."""

    @staticmethod
    def from_sections(sections: Mapping[str, PluginConfig]) -> PluginsConfig:
        """Return a section with an attribute for each of these sections.

        Its class is created at run time, with a field for each plugin.
        """
        return _with(tuple((name, type(section)) for name, section in sections.items()))(**sections)

    def __reduce__(self) -> tuple[Any, ...]:
        sections = {field.name: getattr(self, field.name) for field in fields(self)}
        # the class is created at run time, so pickle could not import it
        return PluginsConfig.from_sections, (sections,), vars(self)

    @property
    def disabled(self) -> set[str]:
        """Return the names of plugins whose hooks are not called."""
        return {field.name for field in fields(self) if not getattr(self, field.name).enabled}


@lru_cache
def _with(sections: tuple[tuple[str, type[PluginConfig]], ...]) -> type[PluginsConfig]:
    declared = [(name, settings, key("its settings", settings())) for name, settings in sections]
    cls: type[PluginsConfig] = make_dataclass("PluginsConfig", declared, bases=(PluginsConfig,))
    return cls
