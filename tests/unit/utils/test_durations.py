"""An update lasts as long as its stages, less what two of them did at the same time."""

from __future__ import annotations

import pytest

from rlcore.utils.durations import update_seconds


@pytest.mark.parametrize(
    ("metrics", "seconds"),
    [
        ({"time/rollout": 4.0, "time/update": 2.0, "time/sync": 0.5, "time/env": 3.0}, 6.5),
        ({"time/rollout": 4.0, "time/update": 2.0, "time/sync": 0.5, "time/overlap": 2.0}, 4.5),
        ({"time/update": 2.0, "time/rollout": None}, 2.0),
        ({}, 0.0),
    ],
)
def test_seconds_of_an_update(metrics, seconds):
    assert update_seconds(metrics) == seconds
