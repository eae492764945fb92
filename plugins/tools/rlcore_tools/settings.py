"""Keys of `plugins.tools`. Imports nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass

from rlcore.config.schema import PluginConfig, key


@dataclass
class ToolsConfig(PluginConfig):
    """Settings of what this package writes for each run."""

    report: bool = key("write report.html at the end of a run", True)
    other_names: bool = key("also log metrics under the further names that plugins define", True)
