"""Keys of `plugins`: settings of installed plugins, besides those of their components."""

from __future__ import annotations

from dataclasses import dataclass, fields

from rlcore.config.schema.keys import Settings, key


@dataclass
class PluginConfig(Settings):
    """Settings of a plugin; its own dataclass adds keys."""

    enabled: bool = key("call its hooks in this run", True)


@dataclass
class PluginsConfig(Settings):
    """Settings of plugins, by the names of their entry points."""

    @property
    def off(self) -> set[str]:
        """Names of those whose hooks are not called."""
        return {each.name for each in fields(self) if not getattr(self, each.name).enabled}
