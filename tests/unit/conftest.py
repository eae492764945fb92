"""Fixtures shared by the unit tests."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rlcore.rollout.trajectory import Trajectory
from rlcore.testing.conformance.trajectories import random_trajectory


@pytest.fixture
def play() -> Callable[..., Trajectory]:
    """Makes random trajectories; see :func:`random_trajectory`."""
    return random_trajectory
