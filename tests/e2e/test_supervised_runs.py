"""Runs of `rlcore sft` without an algorithm: used, resumed and gone on from like any other."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from internals import load_checkpoint
from safetensors.torch import load_file

from rlcore.cli.main import main
from rlcore.runs.tables import read_results

WORDS = [
    *("env=toy", "model=toy", "cluster.backend=local"),
    *("sft.max_steps=40", "collect.episodes_per_task=3", "env.eval.trials_per_task=2"),
]
NAMED = "runner.logger.experiment_name="


def words(log_path: Path, name: str, *more: str) -> list[str]:
    return [*WORDS, f"runner.logger.log_path={log_path}", f"{NAMED}{name}", *more]


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run."""
    logs = tmp_path_factory.mktemp("learned")
    assert main(["sft", *words(logs, "run")]) == 0
    return logs / "run"


@pytest.fixture
def run(learned: Path, log_path: Path) -> Path:
    """A copy of that run."""
    return shutil.copytree(learned, log_path / "run")


def outcome(run: Path) -> tuple[object, ...]:
    """What a run has learned and measured."""
    weights = load_file(run / "sft" / "model.safetensors")
    summary = json.loads((run / "summary.json").read_text())
    losses = json.loads((run / "sft.json").read_text())["train_loss"]
    episodes = [(row.task, row.trial, row.success, row.length) for row in results(run)]
    return (
        {name: w.tolist() for name, w in weights.items()},
        summary["success_after"],
        losses,
        episodes,
    )


def results(run: Path):
    return read_results(run / "eval" / "sft.parquet")


def test_its_checkpoint_holds_the_policy_and_no_learner(learned: Path):
    checkpoint = load_checkpoint(learned, verify=True)
    assert checkpoint.step == 0
    names = {path.name for path in checkpoint.path.iterdir()}
    assert names == {"actor", "state.json", "evaluation.json", "evaluation.parquet"}
    stored = load_file(checkpoint.policy_path / "model.safetensors")
    taught = load_file(learned / "sft" / "model.safetensors")
    assert stored.keys() == taught.keys()
    assert all(bool((stored[name] == taught[name]).all()) for name in stored)
    assert "value.weight" not in stored  # nothing needs a critic


@pytest.mark.parametrize("command", [["eval"], ["report"], ["view"], ["runs", "show"]])
def test_commands_that_take_a_run_take_it(run: Path, capsys, command: list[str]):
    more = ["cluster.backend=local"] if command == ["eval"] else []
    assert main([*command, str(run), *more]) == 0
    assert "Traceback" not in capsys.readouterr().err


def test_it_is_exported(run: Path, tmp_path: Path):
    assert main(["export", str(run), str(tmp_path / "out")]) == 0
    assert (tmp_path / "out" / "model.safetensors").is_file()


@pytest.mark.parametrize("algorithm", ["ppo", "grpo"])
def test_reinforcement_goes_on_from_its_policy(run: Path, algorithm: str):
    """An algorithm with a critic draws one; both act at first like the run."""
    start = f"actor.model.model_path={run / 'sft'}"
    more = (start, f"algorithm={algorithm}", "algorithm.group_size=2", "runner.max_epochs=1")
    smaller = ("env.train.total_num_envs=8", "actor.global_batch_size=64")
    assert main(["train", *words(run.parent, algorithm, *more, *smaller)]) == 0
    before = json.loads((run.parent / algorithm / "summary.json").read_text())["success_before"]
    assert before == json.loads((run / "summary.json").read_text())["success_after"]


def refusal(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The error of a refused command."""
    capsys.readouterr()
    assert main(words) == 2
    return capsys.readouterr().err


def test_a_finished_run_is_not_resumed(run: Path, capsys):
    error = refusal(capsys, "resume", str(run))
    path = f"actor.model.model_path={run / 'sft'}"
    assert f"model=toy algorithm=NAME sft.enabled=false {path}" in error


@pytest.mark.parametrize("lost", ["evaluation", "checkpoint", "policy"])
def test_an_interrupted_run_is_resumed_to_the_same_end(learned: Path, run: Path, lost: str):
    """It was killed in its evaluation, before its checkpoint, or in supervised training."""
    (run / "summary.json").unlink()
    if lost != "evaluation":
        shutil.rmtree(run / "checkpoints")
        (run / "checkpoints").mkdir()
    if lost == "policy":
        shutil.rmtree(run / "sft")
        (run / "sft.json").unlink()
        (run / "metrics.jsonl").write_text("")
    assert main(["resume", str(run), "--dry-run"]) == 0
    assert main(["resume", str(run)]) == 0
    assert outcome(run) == outcome(learned)


def test_the_algorithm_of_a_recipe_is_left_out(log_path: Path, capsys):
    assert main(["sft", *words(log_path, "run", "algorithm=ppo", "algorithm.gamma=0.9")]) == 0
    assert "warning: rlcore sft ignores algorithm.gamma" in capsys.readouterr().err
    run = log_path / "run"
    ended = results(run)
    (run / "summary.json").unlink()  # it was killed in its evaluation
    assert main(["resume", str(run)]) == 0
    assert results(run) == ended
    assert [path.name for path in (run / "checkpoints").glob("step_*")] == ["step_000000"]
    assert "algorithm=NAME" in refusal(capsys, "resume", str(run))


@pytest.mark.parametrize(
    "more",
    [
        ["train"],
        ["train", "sft.enabled=true"],
        ["train", "sft.enabled=true", "--dry-run"],
        ["sft", "sft.enabled=false"],
    ],
)
def test_reinforcement_needs_an_algorithm(log_path: Path, capsys, more: list[str]):
    verb, *changes = more
    error = refusal(capsys, verb, *words(log_path, "none", *changes))
    assert "algorithm=NAME" in error and "grpo, ppo" in error


def test_a_plan_of_it_names_the_command_that_runs_it(capsys):
    words = ["env=toy", "model=toy", "sft.enabled=true", "cluster.inventory=1x24GB"]
    assert main(["plan", *words]) == 0
    assert "look at it: rlcore sft env=toy model=toy sft.enabled=true" in capsys.readouterr().out
