"""Data sets of several formats as one, drawn by their weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from demonstration_cases import COLLECT, SPEC, demonstration, write

from rlcore.config.schema import SFTConfig
from rlcore.contracts.errors import ConfigError
from rlcore.demonstrations.datasets import SupervisedSamples, format_of
from rlcore.demonstrations.mixture import MixtureFormat
from rlcore.learner.supervised import SupervisedTrainer


def mixed(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "both.yaml"
    file.write_text(text)
    return file


def test_each_data_set_is_split_by_itself_and_keeps_its_weight(tmp_path):
    write(tmp_path / "a", [demonstration(0, i, length=2) for i in range(2)])
    write(tmp_path / "b", [demonstration(1, i, length=2) for i in range(4)])
    file = mixed(tmp_path, "mixture: {a: 3, b: 0.5}")
    form = format_of(file)
    assert isinstance(form, MixtureFormat)
    form.check_folder(file, SPEC, COLLECT, seed=0)
    data = form.read(file)
    data.check(SPEC)
    assert len(data) == 6 and ("push", 3) in data.starts() and data.complete
    assert data.summary().frames == 6  # of each two steps, the first has one
    train, val = data.split(0.4, seed=0)  # round(0.8) = 1 of two, round(1.6) = 2 of four
    assert [(demo.weight, demo.episode.task) for demo in train] == [(3, 0), (0.5, 1), (0.5, 1)]
    assert [demo.episode.task for demo in val] == [0, 1, 1]
    assert len(train[1:]) == 2


@pytest.mark.parametrize(
    ("weights", "words"),
    [("{a: 0}", ["mixture.a", 0]), ("{a: often}", ["mixture.a", "'often'"]), ("[a]", ["['a']"])],
)
def test_invalid_weights_are_refused(refused, tmp_path, weights, words):
    write(tmp_path / "a", [demonstration()])
    file = mixed(tmp_path, f"mixture: {weights}")
    with refused(ConfigError, file, *words):
        format_of(file).check_folder(file, SPEC, COLLECT, seed=0)


def test_a_mixture_is_not_written(refused, tmp_path):
    with refused(ConfigError, "collect.format", tmp_path / "new"):
        MixtureFormat().check_folder(tmp_path / "new", SPEC, COLLECT, seed=0)


class Counting:
    """A policy that notes which samples it learns from."""

    class spec:
        name = "counting"
        sft = "flow_matching"

    def __init__(self) -> None:
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.drawn: list[int] = []

    def parameter_groups(self):
        return {"policy": [self.weight], "value": []}

    def named_parameters(self):
        return [("weight", self.weight)]

    def parameters(self):
        return iter([self.weight])

    def sft_loss(self, inputs, actions, mask, keys):
        self.drawn += inputs["number"].tolist()
        return self.weight.expand(len(mask))


def drawn(weights: np.ndarray | None) -> list[int]:
    policy = Counting()
    mask = torch.ones(20, 1, dtype=torch.bool)
    inputs = {"number": torch.arange(20)}
    samples = SupervisedSamples(inputs, torch.zeros(20, 1, 1), mask, weights)
    none = SupervisedSamples({}, torch.empty(0), torch.empty(0, dtype=torch.bool))
    config = SFTConfig(enabled=True, max_steps=50, batch_size=8)
    SupervisedTrainer(policy, config, samples, none, seed=0).train()
    return policy.drawn


def test_frames_are_drawn_by_weight(tmp_path):
    # five frames of weight 3, fifteen of 1: half of all draws
    shares = np.array([3.0] * 5 + [1.0] * 15)
    often = np.mean([number < 5 for number in drawn(shares)])
    assert abs(often - 0.5) < 0.1  # 4 standard deviations of 400 draws
    assert drawn(np.full(20, 7.0)) == drawn(None)
