"""A copy of the parameters on each of two simulated nodes, divided by its two actor processes.

`pytest -m long -n0 tests/e2e/test_node_copies.py`.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from internals import load_checkpoint
from safetensors.torch import load_file
from simulated_nodes import nodes, run

from rlcore.cli.main import main

TOY = [
    "train", "env=toy", "model=toy", "algorithm=ppo", "runner.max_epochs=2",
    "runner.save_interval=1", "runner.val_before_train=false", "env.train.total_num_envs=4",
    "env.eval.total_num_envs=4", "env.eval.trials_per_task=1", "rollout.forward_batch=4",
    "cluster.torch_threads=1", "actor.micro_batch_size=2", "actor.global_batch_size=16",
    "actor.optim.lr=1e-3", "actor.optim.adam_eps=1e-4", "runner.logger.log_path=logs",
    "runner.logger.experiment_name=run",
]  # fmt: skip
HYBRID = [
    "actor.fsdp_config.sharding_strategy=hybrid_shard", "cluster.num_nodes=2",
    "cluster.component_placement={env: 0, rollout: 2, actor: 0-3}",
]  # fmt: skip


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_each_node_divides_a_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The processes of the first node write its two parts; weights are those of one process, but
    for the order of sums."""
    places = tmp_path / "one", tmp_path / "four"
    for place in places:
        place.mkdir()
    monkeypatch.chdir(places[0])
    assert main([*TOY, "cluster.backend=local"]) == 0
    with nodes({}, {}) as cluster:
        ended = run([*TOY, *HYBRID], cluster, places[1])
    assert ended.code == 0, ended.err
    alone, there = (load_checkpoint(place / "logs" / "run").path.parent for place in places)
    for step in ("step_000001", "step_000002"):
        assert sorted(file.name for file in (there / step).glob("learner-*")) == [
            "learner-00001-of-00002.safetensors", "learner-00002-of-00002.safetensors",
        ]  # fmt: skip
    first = "step_000001/actor/model.safetensors"
    mine, its = load_file(alone / first), load_file(there / first)
    assert mine.keys() == its.keys()
    for name, weight in mine.items():
        assert (weight - its[name]).abs().max() < 1e-5, name
