"""Runs in which networks of an algorithm act with the policy: resumed, apart, evaluated again."""

from __future__ import annotations

import contextlib
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from internals import assemble, compose, find_checkpoint, train
from sameness import assert_same, numbers, tensors

import rlcore
from rlcore.cli.main import main
from rlcore.config.compose import load
from rlcore.contracts.errors import ConfigError
from rlcore.learner.acting import ActingPolicy
from rlcore.runs.acting import acting_algorithm
from rlcore.runs.tables import read_results

EXPO = [
    "env=toy",
    "model=toy",
    "algorithm=expo",
    "algorithm.critic_steps=8",
    "algorithm.critics=2",
    "algorithm.batch_size=16",
    "algorithm.warmup=1",
    "algorithm.samples=2",
    "algorithm.imitation_steps=4",
    "algorithm.imitation_batch_size=16",
    "sft.enabled=true",
    "sft.max_steps=60",
    "collect.episodes_per_task=3",
    "env.train.total_num_envs=24",
    "env.eval.total_num_envs=8",
    "env.eval.trials_per_task=3",
    "rollout.forward_batch=4",
    "actor.micro_batch_size=8",
    "actor.global_batch_size=16",
    "actor.optim.lr=1e-3",
    "runner.max_epochs=3",
    "runner.save_interval=1",
    "cluster.torch_threads=1",  # bitwise only with equally many
]
LOCAL = "cluster.backend=local"


def play(log_path: Path, name: str, *overrides: str) -> Path:
    folder = f"runner.logger.log_path={log_path}", f"runner.logger.experiment_name={name}"
    train(assemble(compose([*EXPO, *folder, *overrides])))
    return log_path / name


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return play(tmp_path_factory.mktemp("runs"), "whole", LOCAL)


@pytest.mark.long
def test_edits_alone_make_a_weak_policy_succeed(tmp_path):
    """The policy is never trained, and acts alone for two updates. With eight updates in place of
    five: 0.24 before, 0.72 after."""
    words = [
        *("env=toy", "model=toy", "algorithm=expo", "cluster.backend=local"),
        *("sft.enabled=true", "sft.max_steps=25", "collect.episodes_per_task=2"),
        *("env.train.total_num_envs=48", "env.eval.total_num_envs=48"),
        *("env.eval.trials_per_task=24", "rollout.forward_batch=48", "cluster.torch_threads=1"),
        *("actor.micro_batch_size=128", "actor.global_batch_size=128", "runner.max_epochs=5"),
        *("algorithm.imitation_steps=0", "algorithm.critic_steps=60", "algorithm.batch_size=64"),
        *("algorithm.edit_scale=0.6", "runner.logger.logger_backends=[]"),
        *("runner.val_check_interval=-1", f"runner.logger.log_path={tmp_path}"),
    ]
    summary = train(assemble(compose(words)))
    assert summary["paired_difference"]["lo"] > 0


def test_edits_act_and_are_measured(whole: Path):
    last = numbers(whole)[-2]
    assert last["train/edit/ready"] == 1.0
    assert 0.0 <= last["train/edit/chosen"] <= 1.0 and 0.0 < last["train/edit/size"] <= 0.2
    assert {"train/critic/td_error", "train/critic/q_successes"} <= last.keys()


def test_the_policy_of_a_checkpoint_says_who_acts_with_it(whole: Path):
    assert acting_algorithm(find_checkpoint(whole) / "actor") == "expo"
    assert acting_algorithm(whole / "sft") is None


@pytest.mark.long
def test_an_evaluation_can_be_had_again(whole: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["eval", str(whole), "--verify"]) == 0
    assert "came out as before" in capsys.readouterr().out


@pytest.mark.long
def test_before_the_first_update_the_policy_acts_alone(whole: Path, tmp_path: Path):
    imitating = play(
        tmp_path, "rft", LOCAL, "runner.max_epochs=1", "algorithm.critic_steps=0",
        "algorithm.samples=1", "algorithm.edits=0",
    )  # fmt: skip
    before, alone = (read_results(run / "eval" / "before.parquet") for run in (whole, imitating))
    assert before == alone and before


def test_without_its_algorithm_it_is_not_evaluated(whole: Path):
    folder = find_checkpoint(whole) / "actor"
    words = ["env=toy", "model=toy", "runner.only_eval=true", f"actor.model.model_path={folder}"]
    with pytest.raises(ConfigError, match="algorithm must be expo, as networks of it act with"):
        assemble(compose(words))


def test_another_algorithm_begins_with_the_policy_alone(whole: Path):
    folder = find_checkpoint(whole) / "actor"
    words = ["env=toy", "model=toy", "algorithm=grpo", "env.train.total_num_envs=8"]
    with pytest.warns(
        UserWarning, match="expo acted with the policy .*; grpo starts from the policy alone"
    ):
        assemble(compose([*words, f"actor.model.model_path={folder}"]))


def test_a_loaded_policy_acts_with_its_networks(whole: Path):
    policy = rlcore.load_policy(whole)
    acting = policy.policy
    assert isinstance(acting, ActingPolicy) and bool(acting.networks["edit"].ready)
    # an edit acts where its value is the highest: not in each row
    with contextlib.closing(rlcore.make_env("toy", num_envs=32)) as envs:
        observation, _ = envs.reset(seed=0)
    edited = policy.select_actions(observation)
    alone = replace(policy, policy=acting.policy).select_actions(observation)
    assert edited.shape == alone.shape and (edited != alone).any()


def test_an_export_says_who_acts(whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["export", str(whole), str(tmp_path / "out")]) == 0
    assert "with the acting networks of algorithm=expo" in capsys.readouterr().out
    assert acting_algorithm(tmp_path / "out") == "expo"


@pytest.mark.quick(1)
@pytest.mark.parametrize("update", [1, 2])
def test_a_resumed_run_ends_as_the_uninterrupted_one(whole: Path, tmp_path: Path, update: int):
    again = tmp_path / "again"
    shutil.copytree(whole, again)
    train_from = again / "checkpoints" / f"step_{update:06d}"
    train(assemble(load(again / "config.yaml", [f"runner.resume_dir='{train_from}'"])))
    assert_same(whole, again)


@pytest.mark.long
def test_apart_in_one_process(whole: Path, tmp_path: Path):
    place = "cluster.component_placement={env: 0, rollout: 0, actor: 1}"
    apart = play(tmp_path, "apart", LOCAL, place)
    ours, theirs = tensors(whole), tensors(apart)
    assert ours.keys() == theirs.keys()
    assert [name for name in ours if not torch.equal(ours[name], theirs[name])] == []


@pytest.mark.long
def test_apart_on_ray(whole: Path, tmp_path: Path):
    apart = play(tmp_path, "apart", "cluster.component_placement={env: 0, rollout: 0, actor: 1}")
    ours, theirs = tensors(whole), tensors(apart)
    assert [name for name in ours if not torch.equal(ours[name], theirs[name])] == []
