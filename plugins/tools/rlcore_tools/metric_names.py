"""Log metrics under further names, which plugins define."""

from __future__ import annotations

from collections.abc import Mapping

from rlcore.plugins.registry import load_plugins


def metric_names() -> dict[str, str]:
    """Return `{further name: metric}`, the results of the plugins' hook `rlcore_metric_names`."""
    names: dict[str, str] = {}
    for plugin_names in load_plugins().manager.hook.rlcore_metric_names():
        names |= plugin_names
    return names


def under_further_names(metrics: Mapping[str, float]) -> dict[str, float]:
    """Return those of the metrics that have further names, under these."""
    return {name: metrics[metric] for name, metric in metric_names().items() if metric in metrics}
