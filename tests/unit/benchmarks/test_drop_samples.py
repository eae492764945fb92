"""The benchmark runs from end to end, and all its variants lead to the same weights."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlcore.config.compose import compose
from rlcore.training.assembly import assemble
from rlcore.workers.local_group import LocalGroup

SMALL = [
    "env.train.tasks=[button-press-topdown-v3,faucet-open-v3]",
    "env.eval.tasks=[button-press-topdown-v3,faucet-open-v3]",
    "env.train.max_episode_steps=30",
    "env.train.total_num_envs=4",
    "env.train.rollout_epoch=2",
    "env.train.reward=dense",  # random weights never solve a task
    "algorithm.group_size=4",
    "algorithm.rewards_lower_bound=30",
    "algorithm.rewards_upper_bound=300",
    "actor.micro_batch_size=8",
    "actor.global_batch_size=8",
]

pytest.importorskip("rlcore_env_metaworld")
pytest.importorskip("rlcore_model_openpi")
pytest.importorskip("rlcore_algo_grpo")


@pytest.mark.long
def test_dropping_and_masking_are_the_same_update(figures_of, tmp_path: Path):
    words = ["env=metaworld", "model=pi0_tiny", "algorithm=ppo", "cluster.backend=local"]
    words += ["env.train.image_size=64", "env.eval.image_size=64"]
    with LocalGroup(assemble(compose(words)).worker_specs) as group:
        group.start()
        group.save(tmp_path / "start")
    model = [f"actor.model.model_path={tmp_path}/start", "actor.model.openpi.max_token_len=null"]
    figures = figures_of("drop_samples", *model, *SMALL, "--repeats", "1")
    counts = list(figures["evaluated"].values())
    assert counts[0] == figures["places"] == 8 * 3  # 8 episodes of 30 steps in chunks of 10
    assert counts[0] >= counts[1] > counts[2] > 0
    assert all(difference < 1e-5 for difference in figures["apart"].values())
    assert all(seconds > 0 for seconds in figures["seconds"].values())
