"""The token policy in small: real MetaWorld, a real tiny OpenVLA-OFT, PPO."""

from __future__ import annotations

import json

import pytest
from internals import assemble, compose, read_metrics, train

TASKS = "[button-press-topdown-v3,faucet-open-v3]"
SMALL = [
    "env=metaworld",
    "model=openvla_oft_tiny",
    "algorithm=ppo",
    "cluster.backend=local",
    "cluster.component_placement={env: '0:0', rollout: '0:0', actor: '0:0'}",
    *(f"env.{side}.tasks={TASKS}" for side in ("train", "eval")),
    *(f"env.{side}.image_size=64" for side in ("train", "eval")),
    *(f"env.{side}.fast_render=true" for side in ("train", "eval")),
    *(f"env.{side}.total_num_envs=4" for side in ("train", "eval")),
    *(f"env.{side}.max_episode_steps=40" for side in ("train", "eval")),
    "env.eval.trials_per_task=2",
    "collect.episodes_per_task=2",
    "collect.max_episode_steps=200",
    "collect.stride=5",
    "sft.enabled=true",
    "sft.max_steps=8",
    "sft.batch_size=16",
    "actor.global_batch_size=16",
    "actor.micro_batch_size=16",
    "actor.fsdp_config.gradient_checkpointing=true",
    "algorithm.update_epoch=1",
    "runner.max_epochs=2",
]


@pytest.mark.long
@pytest.mark.parametrize("level", ["token_level", "chunk_level"])
def test_it_trains(tmp_path, level):
    options = [f"algorithm.logprob_type={level}", f"runner.logger.log_path={tmp_path}"]
    train(assemble(compose([*SMALL, *options])))
    lines = [m for m in read_metrics(tmp_path / "run/metrics.jsonl") if "env/return" in m]
    assert len(lines) == 2
    for line in lines:
        assert line["train/actor/optimizer_steps"] >= 1
        assert line["env/episodes"] == 4
    # acting and scoring agree: at the first step of the first update nothing has moved
    assert abs(lines[0]["train/actor/approx_kl"]) < 0.05
    summary = json.loads((tmp_path / "run/summary.json").read_text())
    assert summary["success_after"]["n"] == 4
