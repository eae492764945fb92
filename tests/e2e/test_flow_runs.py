"""Flow policies in whole runs of each kind of algorithm: resumed to the bit, and by two actors.

What π0 and SmolVLA share stands once, so each is tried with what is most its own: a critic on the
VLM's output, its features for EXPO's critics, and its supervised loss for RFT.
"""

from __future__ import annotations

import math
import shutil
from pathlib import Path

import pytest
import torch
from resume_cases import go_on, play
from safetensors.torch import load_file
from sameness import assert_same, numbers, tensors

COMMON = [
    "env=toy",
    "env.train.total_num_envs=8",
    "env.eval.total_num_envs=4",
    "env.eval.trials_per_task=1",
    "rollout.forward_batch=4",
    "actor.micro_batch_size=8",
    "actor.optim.lr=1e-3",
    "runner.max_epochs=2",
    "runner.save_interval=1",
    "cluster.torch_threads=1",  # bitwise only with equally many
]
TAUGHT = ["sft.enabled=true", "sft.max_steps=8", "collect.episodes_per_task=2"]
ALGORITHMS = {
    "ppo": ["algorithm.update_epoch=1", "actor.global_batch_size=16"],
    "rft": [*TAUGHT, "algorithm.steps=3", "algorithm.batch_size=8", "algorithm.demonstrations=0.5"],
    "expo": [
        *TAUGHT,
        "algorithm.critic_features=policy",
        "algorithm.critic_steps=4",
        "algorithm.critics=2",
        "algorithm.batch_size=8",
        "algorithm.warmup=1",
        "algorithm.samples=2",
        "algorithm.imitation_steps=2",
        "algorithm.imitation_batch_size=8",
    ],
}
OWN = {
    "pi0_tiny": "openpi",
    "smolvla_tiny": "smolvla",
}
LOCAL = "cluster.backend=local"
# Sums in another order differ in their last bits, and Adam's moments divide by them.
WEIGHTS = 1e-3


def start(log_path: Path, model: str, algorithm: str, *overrides: str) -> Path:
    """Play two updates and return the run's folder."""
    words = [f"model={model}", f"algorithm={algorithm}", *ALGORITHMS[algorithm]]
    words += [f"actor.model.{OWN[model]}.num_steps=2"]
    if algorithm == "ppo":
        words.append(f"actor.model.{OWN[model]}.value_after_vlm=true")
    return play(log_path, "run", *COMMON, *words, *overrides)


PAIRS = [
    pytest.param(model, algorithm, marks=[pytest.mark.long] if model == "pi0_tiny" else [])
    for model in OWN
    for algorithm in ALGORITHMS
]


@pytest.mark.parametrize(("model", "algorithm"), PAIRS)
def test_a_resumed_run_ends_as_the_uninterrupted_one(
    tmp_path: Path, model: str, algorithm: str
) -> None:
    whole = start(tmp_path, model, algorithm, LOCAL)
    for line in numbers(whole):
        assert all(value is None or math.isfinite(value) for value in line.values())
    first, last = (
        load_file(whole / "checkpoints" / step / "actor" / "model.safetensors")
        for step in ("step_000001", "step_000002")
    )
    assert first.keys() == last.keys()
    assert any(not torch.equal(first[name], last[name]) for name in first)
    again = tmp_path / "again"
    shutil.copytree(whole, again)
    go_on(again / "checkpoints" / "step_000001")
    assert_same(whole, again)


@pytest.mark.long
@pytest.mark.usefixtures("ray_cluster")
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_two_actors_are_close_to_one(tmp_path: Path, algorithm: str) -> None:
    one = start(tmp_path / "one", "smolvla_tiny", algorithm, LOCAL)
    placement = "cluster.component_placement={env: 0, rollout: 0, actor: 0-1}"
    two = start(tmp_path / "two", "smolvla_tiny", algorithm, placement)
    ours, theirs = (  # each actor writes its own files of a replay
        {name: tensor for name, tensor in tensors(run).items() if name.startswith("actor/")}
        for run in (one, two)
    )
    assert ours.keys() == theirs.keys() and ours
    for name, tensor in theirs.items():
        torch.testing.assert_close(tensor, ours[name], rtol=WEIGHTS, atol=WEIGHTS, msg=name)
