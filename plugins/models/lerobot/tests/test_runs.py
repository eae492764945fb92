"""Runs of a policy of LeRobot: the same bits after a resume, and algorithms that are refused."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from rlcore.contracts.errors import ConfigError

pytest.importorskip("lerobot", reason="LeRobot is not installed here; see test_with_lerobot.py")

from internals import check, compose
from resume_cases import go_on, play
from sameness import assert_same, numbers

RUN = [
    "env=toy",
    "model=lerobot",
    "actor.model.num_action_chunks=2",
    "algorithm=rft",
    "algorithm.steps=2",
    "algorithm.batch_size=8",
    "sft.enabled=true",
    "sft.max_steps=4",
    "sft.batch_size=8",
    "collect.episodes_per_task=2",
    "env.train.total_num_envs=8",
    "env.eval.total_num_envs=4",
    "env.eval.trials_per_task=1",
    "rollout.forward_batch=4",
    "actor.micro_batch_size=8",
    "runner.max_epochs=2",
    "runner.save_interval=1",
    "cluster.backend=local",
    "cluster.torch_threads=1",  # bitwise only with equally many
    "runner.logger.logger_backends=[]",
]
SMALL = {
    "act": "dim_model: 16, n_heads: 2, dim_feedforward: 16, n_vae_encoder_layers: 1",
    "diffusion": "down_dims: [8], n_groups: 4, diffusion_step_embed_dim: 8, "
    "spatial_softmax_num_keypoints: 4, num_inference_steps: 3, num_train_timesteps: 10",
}


def words(kind: str) -> list[str]:
    return [
        *RUN,
        f"actor.model.lerobot.type={kind}",
        f"actor.model.lerobot.config={{{SMALL[kind]}}}",
    ]


@pytest.mark.parametrize("kind", SMALL)
def test_a_resumed_run_ends_as_the_uninterrupted_one(kind: str, tmp_path: Path) -> None:
    """Dropout, the VAE's latents and the noise of a diffusion are keyed like all else."""
    whole = play(tmp_path, "whole", *words(kind))
    again = tmp_path / "again"
    shutil.copytree(whole, again)
    go_on(again / "checkpoints/step_000001")
    assert_same(whole, again)
    assert len(numbers(whole)) > 2


def test_what_compares_logprobs_is_refused(refused) -> None:
    with refused(ConfigError, "algorithm must not be ppo", "log-probs", text=False):
        check(compose(["env=toy", "model=lerobot_tiny", "algorithm=ppo"]))


def test_expo_trains_it(tmp_path: Path) -> None:
    changes = ["algorithm=expo", "algorithm.critic_steps=2", "algorithm.imitation_steps=1"]
    kept = [word for word in words("act") if not word.startswith("algorithm")]
    run = play(tmp_path, "run", *kept, *changes, "algorithm.samples=2", "algorithm.warmup=0")
    assert (run / "checkpoints/step_000002").is_dir()
