"""Compute how long an update took, from its line of metrics. Light."""

from __future__ import annotations

from collections.abc import Mapping

STAGES = ("time/rollout", "time/update", "time/sync")
"""Metrics: seconds of the stages of an update."""
OVERLAP = "time/overlap"
"""Metric: seconds in which the next episodes were played beside the update (`runner.loop`)."""


def update_seconds(metrics: Mapping[str, float | None]) -> float:
    """Return the wall-clock seconds of an update with its rollout; missing metrics count 0."""
    stages = sum(metrics.get(name) or 0.0 for name in STAGES)
    return stages - (metrics.get(OVERLAP) or 0.0)
