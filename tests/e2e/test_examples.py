"""The examples do what they say: each is loaded as a plugin, and steers a real run."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from statistics import fmean

import curriculum
import early_stopping
import minimal
import pytest
from internals import Installed, assemble, compose, load_checkpoint, train
from resume_cases import REINFORCE, fail_in_updates, go_on, play, plugged_in
from sameness import assert_same, numbers

from rlcore import hookimpl
from rlcore.contracts.episodes import EpisodeOutcome
from rlcore.contracts.errors import WorkerError
from rlcore.contracts.run import Run
from rlcore.plugins.registry import Registry

EXAMPLES = Path(minimal.__file__).parent
QUICK = ["runner.val_before_train=false", "actor.optim.lr_warmup_steps=0"]
CASES = {
    "early_stopping": ["runner.val_check_interval=1", "actor.optim.lr=1e-12"],
    "curriculum": ["env.train.total_num_envs=16", "actor.model.init_std=0.6"],
}


def start(log_path: Path, name: str, *overrides: str) -> Path:
    return play(log_path, name, *REINFORCE, *QUICK, *overrides)


def test_each_is_a_plugin_of_a_page():
    plugins = {path.stem for path in EXAMPLES.glob("*.py")} - {"minimal", "robot_loop", "best_of"}
    assert plugins == CASES.keys()
    points = [Installed(name, name) for name in sorted(plugins)]
    rows = Registry.load(points, environ={}).rows()
    assert [(row.name, row.status) for row in rows] == [(name, "ok") for name in sorted(plugins)]
    for name in plugins:
        assert len((EXAMPLES / f"{name}.py").read_text().splitlines()) < 60


@pytest.mark.long
@pytest.mark.parametrize(
    "name",
    ["early_stopping", "curriculum"],
)
def test_resumed_equals_undisturbed(log_path: Path, name: str, monkeypatch):
    with plugged_in(import_module(name), name):
        whole = start(log_path, "whole", *CASES[name])
        with monkeypatch.context() as patch:
            fail_in_updates(patch, 2)
            with pytest.raises(WorkerError):
                start(log_path, "broken", *CASES[name])
        go_on(log_path / "broken")
    assert_same(log_path / "broken", whole)
    steering = load_checkpoint(whole).state["steering"]
    assert load_checkpoint(log_path / "broken").state["steering"] == steering
    assert any(steering.values())


@pytest.mark.long
def test_early_stopping_stops_when_nothing_gets_better(log_path: Path):
    """Weights that don't move: the first evaluation is the best, and three more are no better."""
    with plugged_in(early_stopping, "early_stopping"):
        run = start(log_path, "still", *CASES["early_stopping"], "runner.max_epochs=9")
    assert load_checkpoint(run).step == 1 + early_stopping.PATIENCE
    success = {line["eval/success_once"] for line in numbers(run) if "eval/success_once" in line}
    assert len(success) == 1
    text = json.loads((run / "summary.json").read_text())["stopped"]
    assert text == f"success is no better than {success.pop():.3f} in 3 evaluations"


def test_a_plugin_is_tested_without_a_run(tmp_path: Path):
    run = Run(config=None, folder=tmp_path, tasks=("reach-up",))
    for step, success in enumerate([0.25, 0.5, 0.5, 0.25, 0.5]):
        assert not run.steering.stopped
        early_stopping.rlcore_after_eval(run, f"step_{step:06d}", {"eval/success_once": success})
    assert run.steering.stopped == "success is no better than 0.500 in 3 evaluations"


@pytest.mark.long
def test_curriculum_plays_more_of_what_fails(log_path: Path):
    class Recorder:
        """What was played: successes by task, a dict for each rollout."""

        def __init__(self) -> None:
            self.rollouts: list[dict[str, list[bool]]] = []

        @hookimpl
        def rlcore_after_rollout(self, run: Run, outcomes: Sequence[EpisodeOutcome]) -> None:
            played: dict[str, list[bool]] = {task: [] for task in run.tasks}
            for one in outcomes:
                played[run.tasks[one.episode.task]].append(one.success)
            self.rollouts.append(played)

    recorder = Recorder()
    with plugged_in(recorder, "recorder"), plugged_in(curriculum, "curriculum"):
        run = start(log_path, "taught", *CASES["curriculum"], "runner.max_epochs=6")
    lines = [line for line in numbers(run) if any(name.startswith("curr") for name in line)]
    weights = dict.fromkeys(recorder.rollouts[0], 1.0)
    for played, line in zip(recorder.rollouts, lines, strict=True):
        counts = Counter({task: len(episodes) for task, episodes in played.items()})
        for task, weight in weights.items():
            # 16 episodes are four turns of four: of each turn its share, rounded up or down
            share = 4 * weight / sum(weights.values())
            assert 4 * math.floor(share) <= counts[task] <= 4 * math.ceil(share)
        for task, episodes in played.items():
            if episodes:
                moved = 0.7 * weights[task] + 0.3 * (1 - fmean(episodes))
                weights[task] = max(moved, 0.1)
                assert line[f"curriculum/{task}"] == pytest.approx(weights[task])
    assert len(set(weights.values())) > 1  # some task did better than another


@pytest.mark.long
def test_minimal_learns():
    successes = minimal.train(compose(minimal.SETTINGS))
    assert fmean(successes[:3]) < 0.2
    assert fmean(successes[-3:]) > 0.8


def test_minimal_does_what_a_run_does(log_path: Path):
    settings = [*minimal.SETTINGS, "env.train.total_num_envs=24"]
    quick = ["runner.max_epochs=3", "env.eval.trials_per_task=1", "env.eval.total_num_envs=4"]
    words = [
        *settings,
        *quick,
        f"runner.logger.log_path={log_path}",
        "runner.logger.experiment_name=run",
        "cluster.torch_threads=1",
    ]
    train(assemble(compose(words)))
    lines = numbers(log_path / "run")
    successes = [line["env/success_once"] for line in lines if "env/success_once" in line]
    assert minimal.train(compose(settings), updates=3) == successes
