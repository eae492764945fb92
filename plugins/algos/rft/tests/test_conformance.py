"""The checks that rlcore has for every algorithm with a replay."""

import pytest
from rlcore_testing import ReplayConformance


class TestRFT(ReplayConformance):
    name = "rft"
    settings = {"steps": 10}


@pytest.mark.long
class TestRFTWithoutDemonstrations(ReplayConformance):
    name = "rft"
    settings = {"steps": 10, "demonstrations": 0.0, "batch_size": 16}


class TestRFTWithExploration(ReplayConformance):
    name = "rft"
    settings = {"steps": 10, "explore": [0.0, 0.5]}


class TestRFTWithAverage(ReplayConformance):
    name = "rft"
    settings = {"steps": 10, "policy_ema": 0.1}
