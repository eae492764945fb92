"""The checks that rlcore has for every algorithm with a replay and a part in acting."""

from typing import Any, ClassVar

import pytest
from rlcore_testing import ReplayConformance

SMALL: dict[str, Any] = {"critic_steps": 8, "critics": 2, "batch_size": 16, "warmup": 1}


@pytest.mark.long
class TestExpo(ReplayConformance):
    name = "expo"
    settings: ClassVar[dict[str, Any]] = {**SMALL, "imitation_steps": 8}


@pytest.mark.long
class TestExpoThatDrawsItsTargets(ReplayConformance):
    name = "expo"
    settings: ClassVar[dict[str, Any]] = {
        **SMALL, "target_samples": 2, "samples": 2, "edits": 2, "imitation_steps": 5,
        "demonstrations": 0.0, "edit_points": None, "edit_lr": 1e-3, "edit_scale": 0.4,
    }  # fmt: skip


@pytest.mark.long
class TestExpoThatExplores(ReplayConformance):
    name = "expo"
    settings: ClassVar[dict[str, Any]] = {
        **SMALL, "imitation_steps": 5, "explore": [0.0, 0.5], "edit_factors": [0.0, 1.0],
        "edit_imitation": 0.1, "chunk_dropout": 0.5, "final_imitation_steps": 2,
        "edit_unit": "spread", "policy_ema": 0.1,
    }  # fmt: skip
