"""A small run, and when two of them are the same. For the tests of resume and of faults."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import load_file

from rlcore.config.compose import load
from rlcore.loop import train
from rlcore.loop.tables import read_results
from rlcore.track.checkpoint import load_checkpoint
from rlcore.track.sameness import untimed
from rlcore.track.trackers import read_metrics

COMMON = [
    "env=toy",
    "model=toy",
    "algorithm=ppo",
    "algorithm.kl_beta=0.01",  # so that there are reference weights to restore
    "sft.enabled=true",
    "sft.max_steps=30",
    "collect.episodes_per_task=2",
    "env.train.total_num_envs=8",
    "env.eval.total_num_envs=8",
    "env.eval.trials_per_task=3",
    "rollout.forward_batch=4",
    "actor.micro_batch_size=16",
    "actor.global_batch_size=32",
    "actor.optim.lr_warmup_steps=9",
    "runner.max_epochs=4",
    "runner.save_interval=1",
    "cluster.backend=local",
    "cluster.torch_threads=1",  # bitwise only with equally many
]


def go_on(run: Path, *overrides: str) -> None:
    train.run(load(run / "config.yaml", [f"runner.resume_dir='{run}'", *overrides]))


def numbers(run: Path) -> list[dict[str, float | None]]:
    return untimed(read_metrics(run / "metrics.jsonl"))


def assert_same(run: Path, whole: Path) -> None:
    assert numbers(run) == numbers(whole)
    ours, theirs = load_checkpoint(run), load_checkpoint(whole)
    assert ours.step == theirs.step == 4
    for part in ("actor/model.safetensors", "learner.safetensors"):
        mine, other = load_file(ours.path / part), load_file(theirs.path / part)
        assert mine.keys() == other.keys() and mine
        assert all(torch.equal(mine[name], other[name]) for name in mine), part
    for label in ("before", "after"):
        file = f"eval/{label}.parquet"
        assert read_results(run / file) == read_results(whole / file)
    totals = "totals"
    assert ours.state[totals] == theirs.state[totals]
