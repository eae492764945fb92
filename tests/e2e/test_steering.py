"""Plugins that steer: what they set is followed, kept over a resume, and ends a run in order."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from internals import HookError, load_checkpoint
from resume_cases import REINFORCE, fail_in_updates, go_on, play, plugged_in
from sameness import assert_same, numbers

from rlcore import hookimpl
from rlcore.cli.main import main
from rlcore.contracts.episodes import EpisodeOutcome
from rlcore.contracts.errors import ConfigError, WorkerError
from rlcore.contracts.run import Run

QUICK = ["runner.val_before_train=false", "actor.optim.lr=0.01"]
LEFT_OUT = "reach-down"


def start(log_path: Path, name: str, *overrides: str) -> Path:
    return play(log_path, name, *REINFORCE, *QUICK, *overrides)


class Steersman:
    """Sets all there is from what it has seen and what it set before, and never plays one task."""

    def __init__(self, strike_at: int | None = None) -> None:
        self._strike_at = strike_at
        self.played: list[Counter[str]] = []

    @hookimpl
    def rlcore_after_rollout(self, run: Run, outcomes: Sequence[EpisodeOutcome]) -> None:
        self.played.append(Counter(run.tasks[one.episode.task] for one in outcomes))
        reward = sum(one.episode_return + one.length for one in outcomes)
        weights = {task: (3 * w + reward) % 7 + 0.5 for task, w in run.task_weights.items()}
        run.set_task_weights({**weights, LEFT_OUT: 0})
        if run.update == self._strike_at:
            self._strike_at = None
            os.kill(os.getpid(), signal.SIGTERM)

    @hookimpl
    def rlcore_after_update(self, run: Run, metrics: dict[str, float]) -> None:
        seen = [*run.stored().get("steersman", []), metrics["train/actor/approx_kl"]]
        run.store("steersman", seen)
        run.set_lr_factors({"policy": 1 / (1 + len(seen)), "value": run.lr_factors["value"] * 1.5})
        metrics["steersman/kl"] = sum(seen)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A steered run of four updates that nothing interrupted."""
    steersman = Steersman()
    with plugged_in(steersman):
        run = start(tmp_path_factory.mktemp("runs"), "whole")
    assert steersman.played[0] == dict.fromkeys(steersman.played[0], 2)  # 8 episodes of 4 tasks
    assert all(played[LEFT_OUT] == 0 for played in steersman.played[1:])
    return run


def test_rates_follow_their_factors(whole: Path):
    lines = [line for line in numbers(whole) if "steersman/kl" in line]
    # REINFORCE warms up over 9 steps, of which an update makes a few; so against the value group's
    # rate, which has the same warm-up: factors 1, 1/2, 1/3, 1/4 over 1, 1.5, 2.25, 3.375
    ratios = [float(one["train/actor/lr"]) / float(one["train/critic/lr"]) for one in lines]
    expected = [1, 1 / 3, 1 / 6.75, 1 / 13.5]
    assert [ratio / ratios[0] for ratio in ratios] == pytest.approx(expected)


@pytest.mark.long
def test_resumed_equals_undisturbed(log_path: Path, whole: Path, monkeypatch):
    with plugged_in(Steersman()):
        with monkeypatch.context() as patch:
            fail_in_updates(patch, 2)
            with pytest.raises(WorkerError):
                start(log_path, "broken")
        go_on(log_path / "broken")
    assert_same(log_path / "broken", whole)
    kept = [load_checkpoint(run).state["steering"] for run in (log_path / "broken", whole)]
    assert kept[0] == kept[1] and len(kept[0]["kept"]["steersman"]) == 4


@pytest.mark.long
def test_weights_set_in_an_abandoned_rollout_are_given_up(log_path: Path, whole: Path):
    """The signal comes in the hook, when the weights are set already; the rollout is played again
    by the resume, and the hook called again."""
    with plugged_in(Steersman(strike_at=2)):
        with pytest.raises(KeyboardInterrupt):
            start(log_path, "struck")
        assert load_checkpoint(log_path / "struck").step == 2
        go_on(log_path / "struck")
    assert_same(log_path / "struck", whole)


def test_weights_of_an_unknown_task_are_an_error_of_the_plugin(log_path: Path, refused):
    class Mistaken:
        @hookimpl
        def rlcore_after_update(self, run: Run) -> None:
            run.set_task_weights({"reach-lefft": 1.0})

    with (
        plugged_in(Mistaken()),
        refused(HookError, "nosy", "rlcore_after_update", "reach-left", text=False),
    ):
        start(log_path, "mistaken")


class Enough:
    """Ends training after some updates."""

    def __init__(self, updates: int) -> None:
        self._updates = updates

    @hookimpl
    def rlcore_after_update(self, run: Run) -> None:
        if run.update == self._updates:
            run.stop("enough is learned")


@pytest.mark.long
def test_a_stop_of_a_plugin_finishes_the_run(log_path: Path, capsys):
    with plugged_in(Enough(2)):
        run = start(log_path, "stopped", "runner.val_check_interval=1")
    assert "training stopped after update 2: enough is learned" in capsys.readouterr().out
    summary = json.loads((run / "summary.json").read_text())
    assert summary["stopped"] == "enough is learned"
    assert "A plugin ended training: enough is learned." in (run / "report.html").read_text()
    labels = sorted(path.stem for path in (run / "eval").glob("*.parquet"))
    assert labels == ["after", "step_000001"]  # after the last update once, not twice
    # asked to go on, it says why it does not, whatever its limits are
    files = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    for more in ([], ["runner.max_epochs=9"]):
        assert main(["resume", str(run), *more]) == ConfigError.exit_code
        error = capsys.readouterr().err
        assert "enough is learned" in error
        assert f"rlcore resume {run}/checkpoints/step_000002" in error
    assert files == {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    # and does where its checkpoint is named, to where it would have come without the stop
    assert main(["resume", f"{run}/checkpoints/step_000002", "runner.val_check_interval=-1"]) == 0
    assert "enough is learned" in capsys.readouterr().out
    assert "stopped" not in json.loads((run / "summary.json").read_text())
    assert load_checkpoint(run).step == 4
    ours, theirs = (load_checkpoint(at).path for at in (run, start(log_path, "never")))
    learner = "learner.safetensors"
    assert (ours / learner).read_bytes() == (theirs / learner).read_bytes()


@pytest.mark.long
def test_a_stop_after_the_last_update_has_no_effect(log_path: Path):
    class Late:
        @hookimpl
        def rlcore_after_eval(self, run: Run, label: str) -> None:
            if label == "after":
                run.stop("too late")

    with plugged_in(Late()):
        run = start(log_path, "late", "runner.max_epochs=1")
        assert "stopped" not in json.loads((run / "summary.json").read_text())
        go_on(run, "runner.max_epochs=2")
    assert load_checkpoint(run).step == 2


@pytest.mark.long
def test_a_run_killed_after_a_stop_only_finishes(log_path: Path, monkeypatch, capsys):
    with plugged_in(Enough(2)):
        run = start(log_path, "whole")
        with monkeypatch.context() as patch:
            fail_in_updates(patch, 2, step="keep")
            with pytest.raises(WorkerError):
                start(log_path, "killed")
    go_on(log_path / "killed")  # the plugin is gone; the stop is the run's
    assert "training stopped after update 2: enough is learned" in capsys.readouterr().out
    assert_same(log_path / "killed", run)
    summary = json.loads((log_path / "killed" / "summary.json").read_text())
    assert summary["stopped"] == "enough is learned"
