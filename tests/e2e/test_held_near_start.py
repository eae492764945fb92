"""A run that is held near its start, by a KL and by imitation, and adapts its rate."""

from __future__ import annotations

from pathlib import Path

import pytest
from resume_cases import COMMON, fail_in_updates, go_on, play
from sameness import assert_same, numbers

from rlcore.contracts.errors import WorkerError

HELD = [
    *COMMON,  # PPO with algorithm.kl_beta, from supervised training
    "algorithm.imitation.coefficient=0.5",
    "algorithm.imitation.batch_size=8",
    "algorithm.decay_start=0.25",
    "algorithm.decay_end=0.75",
    "algorithm.desired_kl=1e-6",
    "algorithm.update_epoch=2",
    "runner.val_before_train=false",
]


def test_resumed_equals_undisturbed(log_path: Path, monkeypatch):
    whole = play(log_path, "whole", *HELD)
    with monkeypatch.context() as patch:
        fail_in_updates(patch, 2)
        with pytest.raises(WorkerError):
            play(log_path, "broken", *HELD)
    go_on(log_path / "broken")
    assert_same(log_path / "broken", whole)
    lines = [line for line in numbers(whole) if "train/actor/decay" in line]
    # of 4 updates 0, 1, 2 and 3 quarters are done: (0.75 - 0.5) / (0.75 - 0.25) is a half
    assert [line["train/actor/decay"] for line in lines] == [1.0, 1.0, 0.5, 0.0]
    imitated = ["train/actor/imitation_loss" in line for line in lines]
    assert imitated == ["train/actor/kl_reference" in line for line in lines]
    assert imitated == [True, True, True, False]
