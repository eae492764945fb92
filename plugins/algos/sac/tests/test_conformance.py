"""The checks that rlcore has for every algorithm with a replay."""

from typing import Any, ClassVar

import pytest
from rlcore_testing import ReplayConformance

SETTINGS: dict[str, Any] = {
    "steps": 40,
    "actor_every": 1,
    "batch_size": 64,
    "critics": 2,
    "hidden": [16],
    "critic_lr": 0.02,
    "tau": 0.1,
    "alpha": 1e-3,
    "alpha_lr": 0.0,
    "warmup": 0,
}


class TestSAC(ReplayConformance):
    name = "sac"
    settings: ClassVar[dict[str, Any]] = {**SETTINGS, "demonstrations": 0.0}


@pytest.mark.long
class TestSACWithDemonstrations(ReplayConformance):
    name = "sac"
    settings: ClassVar[dict[str, Any]] = {
        **SETTINGS, "imitation_coefficient": 0.1, "alpha_lr": 1e-3, "backup_entropy": True,
        "critics": 3, "chunks": 2, "warmup": 1, "target_entropy": -1.0,
    }  # fmt: skip
