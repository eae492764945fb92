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


def test_each_is_split_by_itself_and_keeps_its_weight(tmp_path):
    write(tmp_path / "a", [demonstration(0, i, length=2) for i in range(2)])
    write(tmp_path / "b", [demonstration(1, i, length=2) for i in range(4)])
    file = mixed(tmp_path, "mixture: {a: 3, b: 0.5}")
    form = format_of(file)
    assert isinstance(form, MixtureFormat)
    form.check_folder(file, SPEC, COLLECT, seed=0)
    data = form.read(file)
    data.check(SPEC)
    assert len(data) == 6 and ("push", 3) in data.starts() and data.complete
    train, val = data.split(0.4, seed=0)  # round(0.8) = 1 of two, round(1.6) = 2 of four
    assert [one.weight for one in train] == [3, 0.5, 0.5]
    assert [one.episode.task for one in train] == [0, 1, 1]
    assert [one.episode.task for one in val] == [0, 1, 1] and len(train[1:]) == 2


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("mixture: {a: 0}", r"mixture\.a: expected a weight above 0, got 0"),
        ("mixture: {a: often}", r"mixture\.a: expected a weight above 0, got 'often'"),
        ("mixture: [a]", r"mixture: expected data sets with weights"),
    ],
)
def test_what_is_no_mixture(tmp_path, text, says):
    write(tmp_path / "a", [demonstration()])
    file = mixed(tmp_path, text)
    with pytest.raises(ConfigError, match=says):
        format_of(file).check_folder(file, SPEC, COLLECT, seed=0)


def test_a_mixture_is_not_written(tmp_path):
    with pytest.raises(ConfigError, match="is read-only"):
        MixtureFormat().check_folder(tmp_path / "new", SPEC, COLLECT, seed=0)


class Counting:
    """A policy that notes which samples it learns from."""

    class spec:
        name, sft = "counting", "flow_matching"

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
    samples = SupervisedSamples(
        {"number": torch.arange(20)}, torch.zeros(20, 1, 1), torch.ones(20, 1, dtype=torch.bool),
        weights,
    )  # fmt: skip
    none = SupervisedSamples({}, torch.empty(0), torch.empty(0, dtype=torch.bool))
    config = SFTConfig(enabled=True, max_steps=400, batch_size=1)
    SupervisedTrainer(policy, config, seed=0).fit(samples, none)
    return policy.drawn


def test_frames_are_drawn_by_weight(tmp_path):
    # five frames of weight 3, fifteen of 1: half of all draws
    shares = np.array([3.0] * 5 + [1.0] * 15)
    often = np.mean([number < 5 for number in drawn(shares)])
    assert abs(often - 0.5) < 0.1  # 4 standard deviations of 400 draws
    assert drawn(np.full(20, 7.0)) == drawn(None)
