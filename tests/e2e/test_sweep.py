"""A real sweep: its runs can be used like any other, whatever their folders are called."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rlcore.cli.main import main

TINY = [
    *("env=toy", "model=toy", "algorithm=ppo", "cluster.backend=local", "runner.max_epochs=1"),
    *("cluster.component_placement={env: 0, rollout: 0, actor: 0}", "cluster.torch_threads=1"),
    *("env.train.total_num_envs=2", "env.eval.total_num_envs=2", "env.eval.trials_per_task=2"),
    *("actor.global_batch_size=4", "actor.micro_batch_size=4", "runner.logger.experiment_name=run"),
]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a sweep over two seeds; its second run has the name of older sweeps."""
    log_path = tmp_path_factory.mktemp("logs")
    swept = [f"runner.logger.log_path={log_path}", "runner.seed=0,1", "-m"]
    assert main(["train", *TINY, *swept]) == 0
    runs = log_path / "run"
    (runs / "1-seed-1").rename(runs / "1_runner.seed=1")
    return runs


@pytest.mark.long
def test_its_figures_are_those_of_the_runs(runs: Path):
    figures = json.loads((runs / "0-seed-0" / "summary.json").read_text())
    (line,) = [line for line in (runs / "sweep.txt").read_text().splitlines() if "0-seed-0" in line]
    assert "{rate:.3f} ({lo:.3f}..{hi:.3f})".format(**figures["success_after"]) in line


@pytest.mark.long
@pytest.mark.parametrize("name", ["0-seed-0", "1_runner.seed=1"])
def test_every_verb_takes_its_runs(runs: Path, name: str, elsewhere: Path, monkeypatch, capsys):
    monkeypatch.chdir(runs)
    assert main(["resume", name, "runner.max_epochs=2"]) == 0
    assert main(["eval", name, f"runner.logger.log_path={elsewhere}"]) == 0
    assert (elsewhere / f"{name}-eval" / "summary.json").is_file()
    assert main(["eval", name, "--verify"]) == 0
    assert main(["replay", name, "--task=0", "--trial=1000"]) == 0
    assert main(["report", name]) == 0
    assert main(["export", name, str(elsewhere / "out")]) in (0, 2)
    assert "key=value" not in capsys.readouterr().err


@pytest.mark.long
def test_evaluations_may_be_swept_over_such_a_run(runs: Path, elsewhere: Path, capsys):
    words = [f"runner.logger.log_path={elsewhere}", "rollout.eval_deterministic=true,false", "-m"]
    assert main(["eval", str(runs / "1_runner.seed=1"), *words]) == 0
    assert (elsewhere / "1_runner.seed=1-eval/1-eval_deterministic-False/summary.json").is_file()
