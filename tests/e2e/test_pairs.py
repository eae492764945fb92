"""Every installed model under every algorithm that needs no data: two small updates on MetaWorld.

`lerobot_tiny` has no log-probs, which these algorithms compare (plugins/models/lerobot/tests);
`rft` and `expo` need demonstrations, `dsrl` a flow, `sac` a policy whose samples have gradients:
tests/e2e/test_replay_runs.py, test_acting_runs.py, plugins/algos/dsrl/tests,
plugins/algos/sac/tests."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from internals import assemble, compose, read_metrics, train

from rlcore.config.catalog import Catalog
from rlcore.plugins.registry import load_plugins

REGISTRY = load_plugins()
SMALL = [name for name in Catalog(REGISTRY).options("model") if name.endswith("_tiny")]
SMALL += ["gaussian"]  # small as it is
TOY = {"toy"}  # core's own; it knows the toy env alone
ON_POLICY = sorted({*REGISTRY.names("algorithm")} - {"rft", "expo", "dsrl", "sac"})
COMMON = [
    "env=metaworld",
    "cluster.backend=local",
    "cluster.component_placement={env: '0:0', rollout: '0:0', actor: '0:0'}",
    "cluster.torch_threads=1",
    "runner.max_epochs=2",
    "runner.val_before_train=false",
    "runner.logger.logger_backends=[]",
    "runner.logger.experiment_name=run",
    "algorithm.group_size=2",
    "algorithm.update_epoch=1",
    "actor.micro_batch_size=2",
    "actor.global_batch_size=4",
    "env.train.reward=dense",  # a sparse one is zero here, and with it every advantage
    "env.train.total_num_envs=2",
    "env.eval.total_num_envs=1",
    "env.eval.trials_per_task=1",
    *(f"env.{side}.{setting}" for side in ("train", "eval") for setting in (
        "tasks=[button-press-topdown-v3]", "image_size=32", "fast_render=true",
        "max_episode_steps=20", "num_processes=0", "settle_steps=0",
    )),
]  # fmt: skip


def test_every_model_has_a_small_option():
    types = {
        compose([f"model={name}"], require=("model",)).actor.model.model_type for name in SMALL
    }
    assert types == set(REGISTRY.names("model")) - TOY - {"remote"}  # not trained


@pytest.mark.quick(2)
@pytest.mark.filterwarnings("ignore::rlcore.config.warning.ConfigWarning")
@pytest.mark.parametrize(
    ("model", "algorithm"),
    [
        pytest.param(model, algorithm, marks=[] if (row + column) % 2 == 0 else [pytest.mark.long])
        for row, model in enumerate(name for name in SMALL if name != "lerobot_tiny")
        for column, algorithm in enumerate(ON_POLICY)
    ],
)
def test_two_updates(model: str, algorithm: str, log_path: Path):
    """Nothing is told but the two names: a critic where one is wanted, groups where they are."""
    choice = [f"model={model}", f"algorithm={algorithm}", f"runner.logger.log_path={log_path}"]
    summary = train(assemble(compose([*COMMON, *choice])))
    lines = [m for m in read_metrics(log_path / "run" / "metrics.jsonl") if "train/loss" in m]
    assert len(lines) == 2
    for line in lines:
        assert math.isfinite(line["train/loss"])
        assert line["env/episodes"] == 2 and 0 < line["env/episode_len"] <= 20
        assert line["train/actor/optimizer_steps"] >= 1 and line["train/actor/grad_norm"] > 0
    assert summary["success_after"]["n"] == 1
