"""rlcore's checks of an algorithm, and the numbers of this one by hand."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from rlcore_testing import AlgorithmConformance
from rloo_for_rlcore.entropy import EntropyFloor
from rloo_for_rlcore.entropy_floor import floored


class TestRLOO(AlgorithmConformance):
    name = "rloo"


def test_the_term_counts_what_lies_below_the_floor():
    """Two chunks of one action with two entries: means 0.5 and 2; the floor is 1, both weigh 1/2:
    0.2 * 1/2 * (1 - 0.5)."""
    algorithm = floored(
        SimpleNamespace(loss=lambda now, batch: (torch.tensor(3.0), {})),
        EntropyFloor(floor=1.0, coef=0.2),
    )
    entropy = torch.tensor([[[0.4, 0.6]], [[1.0, 3.0]]])
    now = SimpleNamespace(entropy=entropy, logprobs=torch.zeros_like(entropy))
    weights = SimpleNamespace(entropy=torch.full((2, 1, 1), 0.5))
    batch = SimpleNamespace(valid=torch.ones(2, 1, dtype=torch.bool), weights=weights)
    total, metrics = algorithm.loss(now, batch)
    assert float(total) == pytest.approx(3.05) and "train/actor/entropy_floor" in metrics
