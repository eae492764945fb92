"""Keys of `plugins.tools`. Light."""

from __future__ import annotations

from dataclasses import dataclass

from rlcore.config.schema import PluginConfig, key


@dataclass
class ToolsConfig(PluginConfig):
    """What is written of a run besides its numbers: videos, a report, other names of metrics."""

    report: bool = key("write report.html at the end of a run", True)
    other_names: bool = key("log metrics under the further names that plugins give them, too", True)
