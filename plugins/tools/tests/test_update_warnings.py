"""Warnings about updates that moved the policy far."""

from dataclasses import dataclass

import pytest
from rlcore_tools.update_warnings import moved_far, nothing_learned

from rlcore.config.schema import AlgorithmConfig


@dataclass
class WithLimit(AlgorithmConfig):
    target_kl: float | None = None


@dataclass
class Waiting(AlgorithmConfig):
    start: int = 500


def warning(kl: float, clipped: float, config: AlgorithmConfig) -> str | None:
    metrics = {"train/actor/approx_kl": kl, "train/actor/clip_fraction": clipped}
    return moved_far(7, metrics, config)


@pytest.mark.parametrize(
    ("kl", "clipped", "far"),
    [(0.5, 0.5, False), (0.51, 0.1, True), (0.1, 0.51, True), (float("nan"), 0.0, False)],
)
def test_thresholds(kl, clipped, far):
    assert (warning(kl, clipped, AlgorithmConfig()) is not None) is far


def test_the_warning_has_the_numbers_and_only_keys_that_there_are():
    plain = warning(2.8, 0.55, AlgorithmConfig())
    assert plain is not None
    for part in ("update 7", "2.8", "55%", "actor.optim.lr"):
        assert part in plain
    assert "target_kl" not in plain
    assert "algorithm.target_kl=0.1" in str(warning(2.8, 0.55, WithLimit()))
    assert "target_kl" not in str(warning(2.8, 0.55, WithLimit(target_kl=3.0)))


def test_an_algorithm_that_does_not_count_clipping_is_judged_by_its_kl():
    assert moved_far(1, {"train/actor/approx_kl": 3.0}, AlgorithmConfig()) is not None


@pytest.mark.parametrize(("decisions", "silent"), [(499.0, True), (500.0, False)])
def test_an_algorithm_that_waits_for_decisions_gets_no_warning(decisions, silent):
    metrics = {
        "train/actor/optimizer_steps": 0.0,
        "train/actor/trained_samples": 0.0,
        "rollout/replay_decisions": decisions,
    }
    assert (nothing_learned(3, metrics, Waiting()) is None) is silent
    assert nothing_learned(3, metrics, AlgorithmConfig()) is not None
