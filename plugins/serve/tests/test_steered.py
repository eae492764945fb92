"""A policy that an algorithm steers is served as it acts in its own run."""

from __future__ import annotations

from pathlib import Path

import pytest
from served import serving

import rlcore
from rlcore.learner.acting import without_acting_networks

COMMON = (
    "cluster.backend=local",
    "cluster.torch_threads=1",
    "env.train.total_num_envs=8",
    "env.eval.total_num_envs=4",
    "env.eval.trials_per_task=2",
    "rollout.forward_batch=4",
    "runner.logger.logger_backends=[]",
    "runner.val_before_train=false",
    "runner.max_epochs=2",
    "actor.micro_batch_size=8",
    "actor.global_batch_size=16",
    "algorithm.batch_size=8",
)
STEERED = {
    "expo": (
        "env=toy",
        "model=toy",
        "algorithm=expo",
        "algorithm.critic_steps=8",
        "algorithm.critics=2",
        "algorithm.warmup=1",
        "algorithm.samples=2",
        "algorithm.imitation_steps=4",
        "algorithm.imitation_batch_size=16",
        "sft.enabled=true",
        "sft.max_steps=20",
        "collect.episodes_per_task=2",
    ),
    "dsrl": (
        "env=toy",
        "model=pi0_tiny",
        "algorithm=dsrl",
        "algorithm.start=1",
        "algorithm.steps=2",
        "algorithm.heads=2",
        "actor.model.num_action_chunks=2",
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("algorithm", STEERED)
def test_it_acts_and_succeeds_as_in_process(tmp_path: Path, algorithm: str) -> None:
    words = (*STEERED[algorithm], *COMMON, f"runner.logger.log_path={tmp_path}/train")
    run = rlcore.train(*words).folder
    policy = rlcore.load_policy(run)
    envs = rlcore.make_env("toy", num_envs=2)
    seen = envs.reset(seed=3)[0]
    envs.close()
    alone_policy = rlcore.api.LoadedPolicy(
        without_acting_networks(policy.policy), policy.env_spec, policy.config
    )
    steered, by_itself = (one.select_actions(seen) for one in (policy, alone_policy))
    assert not (steered == by_itself).all()  # so what follows says that the steering is served
    chunks = policy.policy.spec.num_action_chunks
    flags = (
        "env=toy",
        "env.eval.total_num_envs=4",
        "env.eval.trials_per_task=2",
        "cluster.backend=local",
        "cluster.torch_threads=1",
        "runner.logger.logger_backends=[]",
    )
    here = rlcore.evaluate(str(run), *flags[1:], f"runner.logger.log_path={tmp_path}/here")
    with serving(policy, forward_batch=4, max_wait_ms=50) as server:
        words = (
            *flags,
            "model=remote",
            f"actor.model.url={server.url}",
            "runner.only_eval=true",
            f"actor.model.num_action_chunks={chunks}",
            "rollout.forward_batch=4",
        )
        there = rlcore.evaluate(*words, f"runner.logger.log_path={tmp_path}/there")
    played = [
        [(e.task, e.trial, e.success, e.length, e.episode_return) for e in one.episodes]
        for one in (here, there)
    ]
    assert played[0] == played[1] and played[0]
