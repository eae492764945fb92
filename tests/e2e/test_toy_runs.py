"""Whole runs on the toy env: the story of a training, on both backends."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from internals import assemble, compose, evaluate, load_checkpoint, read_metrics, train
from safetensors.torch import load_file
from sameness import numbers

from rlcore.cli.main import main
from rlcore.contracts.errors import ConfigError, WorkerError
from rlcore.runs.tables import read_results

TOY = ["env=toy", "model=toy", "algorithm=ppo"]
SMALL = [
    *TOY,
    "sft.enabled=true",
    "sft.max_steps=40",
    "collect.episodes_per_task=3",
    "runner.max_epochs=3",
    "env.train.total_num_envs=12",
    "env.eval.total_num_envs=12",
    "env.eval.trials_per_task=5",
    "rollout.forward_batch=4",
    "actor.micro_batch_size=16",
    "actor.global_batch_size=64",
    "actor.optim.lr=3e-4",
    "algorithm.update_epoch=2",
    "runner.logger.experiment_name=run",
]


def run(log_path: Path, *overrides: str):
    return train(assemble(compose([*SMALL, f"runner.logger.log_path={log_path}", *overrides])))


LOCAL = "cluster.backend=local"


def test_a_run_writes_its_summary_episodes_films_and_checkpoint(log_path: Path):
    summary = run(
        log_path,
        LOCAL,
        "env.eval.video_cfg.save_video=true",
        "env.train.video_cfg.save_video=true",
        "runner.logger.logger_backends=[tensorboard]",
    )
    folder = log_path / "run"
    assert json.loads((folder / "summary.json").read_text()) == summary
    assert sorted(summary) == [
        *("averages", "env_steps", "episodes", "failures", "groups", "paired_difference"),
        *("reached", "seconds", "seed", "success_after", "success_before", "versions"),
    ]
    assert summary["success_after"]["n"] == 20  # 4 tasks, 5 trials
    assert summary["episodes"] == 36  # 3 updates of 12 columns
    starts = {(r.task, r.trial) for r in read_results(folder / "eval" / "after.parquet")}
    assert len(starts) == 20 and all(1000 <= trial < 1005 for _, trial in starts)
    files = "config.yaml manifest.json sft.json recipe.yaml report.html video/eval/after.mp4"
    for name in [*files.split(), "video/train/update_000001.mp4"]:
        assert (folder / name).is_file(), name
    assert list((folder / "tensorboard").glob("events*"))
    # 8 of 20 starts (4 tasks, 5 trials), evenly: two of each task
    clips = {path.name for path in (folder / "video/eval/after").iterdir()}
    assert clips == {path.name for path in (folder / "video/eval/before").iterdir()}
    assert len(clips) == 8
    assert {name.rpartition("-")[0] for name in clips} == {task for task, _ in starts}
    lines = read_metrics(folder / "metrics.jsonl")
    assert sum(line["env/episodes"] for line in lines if "env/episodes" in line) == 36
    checkpoint = load_checkpoint(folder)
    assert checkpoint.step == 3
    assert checkpoint.state["totals"]["env_steps"] == summary["env_steps"]


def test_equal_seeds_give_identical_metrics_and_others_do_not(
    log_path: Path, elsewhere: Path, capsys
):
    names = [*SMALL, LOCAL, f"runner.logger.log_path={log_path}"]
    for seed in (0, 0, 1):
        assert main(["train", *names, f"runner.seed={seed}", "runner.max_epochs=2"]) == 0
    first, again, other = (log_path / name for name in ("run", "run-2", "run-3"))
    assert numbers(first) == numbers(again) and len(numbers(first)) > 40  # 40 of them of SFT
    capsys.readouterr()
    assert main(["report", str(first), str(again), str(other)]) == 0
    _, same, different = capsys.readouterr().out.splitlines()
    assert same == f"{first} and {again} have identical metrics (times aside)"
    # step 0 is validated before it is made
    assert "step 0" in different and "sft/val_loss" in different


@pytest.mark.long
def test_a_value_and_a_reward_per_action(log_path: Path):
    summary = run(
        log_path,
        LOCAL,
        "runner.max_epochs=1",
        "algorithm.reward_type=action_level",
        "algorithm.logprob_type=action_level",
        "actor.model.value_type=action_level",
    )
    assert summary["episodes"] == 12
    folder = log_path / "run"
    losses = [line["train/critic/value_loss"] for line in numbers(folder)
              if "train/critic/value_loss" in line]  # fmt: skip
    assert len(losses) == 1 and losses[0] > 0
    weights = load_file(load_checkpoint(folder).policy_path / "model.safetensors")
    assert weights["value.weight"].shape == (2, 65)  # C values of 64 features and the time


@pytest.mark.long
def test_the_saved_policy_evaluates_to_the_same_episodes(log_path: Path):
    run(log_path, LOCAL)
    folder = log_path / "run"
    policy = f"actor.model.model_path={load_checkpoint(folder).policy_path}"
    words = [*SMALL, LOCAL, f"runner.logger.log_path={log_path}", policy]
    again = evaluate(assemble(compose(words)))
    assert again == read_results(folder / "eval" / "after.parquet")


def test_an_evaluation_needs_no_algorithm_and_no_critic(log_path: Path):
    config = compose(
        [
            "env=toy",
            "model=toy",
            "runner.only_eval=true",
            LOCAL,
            "env.eval.trials_per_task=2",
            f"runner.logger.log_path={log_path}",
            "runner.logger.experiment_name=run",
        ],
        require=("env", "model"),
    )
    assert config.algorithm.name == ""
    starts = {(result.task, result.trial) for result in evaluate(assemble(config))}
    assert len(starts) == 8  # 4 tasks, 2 trials
    assert (log_path / "run" / "summary.json").is_file()


@pytest.mark.long
def test_ppo_improves_the_toy(log_path: Path):
    summary = run(
        log_path,
        LOCAL,
        "runner.max_epochs=25",
        "actor.optim.lr=1e-3",
        "env.train.total_num_envs=64",
        "env.train.max_episode_steps=10",
        "env.eval.max_episode_steps=10",
        "env.eval.trials_per_task=40",
        "sft.max_steps=25",
        "algorithm.update_epoch=4",
        "actor.optim.value_lr=3e-3",
    )
    assert summary["paired_difference"]["lo"] > 0.02, summary


def test_the_error_of_a_simulator_has_one_short_traceback(log_path: Path, capsys):
    failing = ["sft.enabled=false", "env.train.fail_at=7", "env.eval.fail_at=7"]
    words = ["train", *SMALL, LOCAL, *failing, f"runner.logger.log_path={log_path}"]
    assert main(words) == WorkerError.exit_code
    text = capsys.readouterr().err.partition("error: ")[2]
    first, below = text.split("\n", 1)
    assert first.startswith("env worker") and "RuntimeError" in first
    assert re.search(r"fail at step 7 \(\S+/toy_env\.py:\d+\)$", first)
    assert below.startswith("Traceback")
    assert text.count("Traceback") == below.count("fail at step 7") == 1
    assert "toy_env.py" in text and "group.py" not in text and "loop/" not in text


@pytest.mark.parametrize("verb", ["sft", "collect", "eval"])
def test_a_command_that_resumes_no_run_says_so(verb: str, log_path: Path, capsys):
    words = [verb, "env=toy", "model=toy", "algorithm=ppo", f"runner.logger.log_path={log_path}"]
    assert main([*words, "runner.resume_dir=elsewhere"]) == ConfigError.exit_code
    error = capsys.readouterr().err
    assert "runner.resume_dir" in error and f"rlcore {verb}" in error and "rlcore resume" in error
    assert not list(log_path.iterdir())
    assert main([*words, "runner.auto_resume=true", "--dry-run"]) == 0
    assert "runner.auto_resume=true" in capsys.readouterr().err
