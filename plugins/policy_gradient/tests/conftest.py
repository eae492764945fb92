"""Random trajectories."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from rlcore_testing.conformance.trajectories import random_trajectory

from rlcore.contracts.trajectory import Trajectory


@pytest.fixture
def play() -> Callable[..., Trajectory]:
    """Makes random trajectories; see :func:`random_trajectory`."""
    return random_trajectory
