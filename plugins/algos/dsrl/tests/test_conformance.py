"""The checks that rlcore has for every algorithm with a replay."""

import pytest
from rlcore_testing import ReplayConformance

SETTINGS = {
    "start": 1,
    "steps": 6,
    "batch_size": 64,
    "heads": 2,
    "hidden": [16],
    "actor_lr": 0.05,
    "critic_lr": 0.05,
    "tau": 0.1,
    "alpha": 0.1,
}


@pytest.mark.long
class TestDSRL(ReplayConformance):
    name = "dsrl"
    settings = SETTINGS


@pytest.mark.long
class TestDSRLWithFixedEntropyAndOneRow(ReplayConformance):
    name = "dsrl"
    settings = {
        **SETTINGS,
        "noise_rows": 1,
        "alpha": 0.0,
        "alpha_lr": 0.0,
        "target": "min",
        "actor_every": 2,
        "step_penalty": 0.0,
    }
