"""Runs of a frozen policy that DSRL steers: what is trained, resumed, apart, measured again."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from internals import find_checkpoint
from resume_cases import go_on, play
from safetensors.torch import load_file
from sameness import assert_same, numbers, tensors
from test_pairs import COMMON

from rlcore.api import build_policy, open_run
from rlcore.contracts.rng import RowKeys
from rlcore.learner.acting import without_acting_networks
from rlcore.rollout.batch_invariance import random_observation
from rlcore.runs.acting import acting_algorithm

DSRL = [
    *(word for word in COMMON if not word.startswith(("algorithm.", "cluster.", "runner.max"))),
    "model=pi0_tiny",
    "algorithm=dsrl",
    "algorithm.start=1",
    "algorithm.steps=2",
    "algorithm.batch_size=4",
    "algorithm.heads=2",
    "algorithm.actor_lr=0.01",
    "algorithm.critic_lr=0.01",
    "algorithm.tau=0.5",
    "cluster.torch_threads=1",
    "runner.max_epochs=3",
    "runner.save_interval=1",
]
LOCAL = ["cluster.backend=local", "cluster.component_placement={env,rollout,actor: '0:0'}"]
# Sums in another order differ in their last bits, and Adam's moments divide by them.
WEIGHTS = 1e-3


def start(log_path: Path, name: str, *overrides: str) -> Path:
    return play(log_path, name, *DSRL, *overrides)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return start(tmp_path_factory.mktemp("runs"), "whole", *LOCAL)


def test_the_policy_stays_as_it_is_and_its_optimizer_holds_nothing(whole: Path):
    held = tensors(whole)
    actor = {name for name in held if name.startswith("actor/") and "acting/" not in name}
    first = find_checkpoint(whole / "checkpoints" / "step_000001")
    files = {name.split(":")[0] for name in actor}
    for file in files:
        for name, tensor in load_file(first / file).items():
            assert torch.equal(held[f"{file}:{name}"], tensor)
    assert actor and not any("optimizer.policy" in name for name in held)
    assert any("optimizer.actor" in name for name in held)
    assert numbers(whole)[-2]["train/critic/grad_norm"] > 0


def test_a_loaded_policy_is_the_frozen_one_under_the_actors_mean_noise(whole: Path):
    folder = find_checkpoint(whole) / "actor"
    assert acting_algorithm(folder) == "dsrl"
    run = open_run(whole)
    policy, env = build_policy(run.config_to_evaluate(run.checkpoint()))
    inputs = policy.prepare(random_observation(env, 2))
    keys = RowKeys(((0,), (1,)))
    steered = policy.act(inputs, keys, deterministic=True)
    actor, critic = policy.networks["actor"], policy.networks["critic"]
    with torch.no_grad():
        seen = {name: torch.from_numpy(array) for name, array in inputs.items()}
        noise = actor.unrolled(actor.mean(critic.features(seen))).numpy()
    given = without_acting_networks(policy).act(inputs, keys, deterministic=True, noise=noise)
    assert np.array_equal(steered.actions, given.actions)
    itself = without_acting_networks(policy).act(inputs, keys, deterministic=True)
    assert not np.array_equal(steered.actions, itself.actions)


@pytest.mark.quick(1)
@pytest.mark.parametrize("update", [1, 2])
def test_a_resumed_run_ends_as_the_uninterrupted_one(whole: Path, tmp_path: Path, update: int):
    again = tmp_path / "again"
    shutil.copytree(whole, again)
    go_on(again / "checkpoints" / f"step_{update:06d}")
    assert_same(whole, again)


@pytest.mark.long
@pytest.mark.parametrize("backend", ["local", "ray"])
def test_separate_workers_are_close_to_one_process(whole: Path, tmp_path: Path, backend: str):
    placement = "cluster.component_placement={env: 0, rollout: 0, actor: 1}"
    apart = start(tmp_path, "apart", f"cluster.backend={backend}", placement)
    ours, theirs = tensors(whole), tensors(apart)
    assert ours.keys() == theirs.keys()
    for name, tensor in theirs.items():
        torch.testing.assert_close(tensor, ours[name], rtol=WEIGHTS, atol=WEIGHTS)
