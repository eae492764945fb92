"""Further evaluations of a run: of the checkpoint that is kept, chosen on validation starts, of
tasks that it does not train on, and of a control that imitates the run's own successes."""

from __future__ import annotations

import hashlib
import json
import shutil
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest
from internals import read_history, train_stages
from resume_cases import go_on, play
from sameness import assert_same, numbers

from rlcore.cli.main import main
from rlcore.contracts.errors import ConfigError, WorkerError
from rlcore.learner.supervised import SupervisedTrainer
from rlcore.runs.statistics import paired_difference
from rlcore.runs.tables import read_results, success_by_start

TRAINING = [
    *("env=toy", "model=toy", "algorithm=ppo", "cluster.backend=local"),
    *("cluster.torch_threads=1", "sft.enabled=true", "env.*.tasks=[reach-left,reach-up]"),
    *("env.eval.total_num_envs=8", "env.eval.trials_per_task=2"),
    *("runner.logger.logger_backends=[]",),
]
PPO = [
    *("env=toy", "model=toy", "algorithm=ppo", "cluster.backend=local", "cluster.torch_threads=1"),
    *("sft.enabled=true", "sft.max_steps=20", "collect.episodes_per_task=2"),
    *("env.*.tasks=[reach-left,reach-up]", "env.train.total_num_envs=24"),
    *("env.eval.total_num_envs=8", "env.eval.trials_per_task=2", "rollout.forward_batch=8"),
    *("env.forgetting.tasks=[reach-right]", "env.forgetting.trials_per_task=3"),
    *("env.validation.trials_per_task=4", "actor.optim.lr=3e-3"),
    *("actor.micro_batch_size=16", "actor.global_batch_size=16", "runner.max_epochs=2"),
    *("runner.save_interval=1", "runner.val_check_interval=1", "runner.keep_best=true"),
]


def start(log_path: Path, *overrides: str) -> Path:
    return play(log_path, "run", *PPO, *overrides)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return start(tmp_path_factory.mktemp("runs"), "sft.control=own_successes")


def rate(run: Path, label: str, starts: int) -> float:
    episodes = read_results(run / "eval" / f"{label}.parquet")
    assert len(episodes) == starts
    return sum(one.success for one in episodes) / starts


def kept(run: Path, *labels: str) -> int:
    """The number of the latest evaluation whose success is not below the best one's."""
    rows = [read_results(run / f"eval/validation/{label}.parquet") for label in labels]
    rates = [sum(row.success for row in each) for each in rows]
    played = [success_by_start(each) for each in rows]
    best = played[rates.index(max(rates))]
    differences = [paired_difference(best, each).hi for each in played]
    return max(number for number, hi in enumerate(differences, start=1) if hi >= 0)


@pytest.mark.long
def test_the_latest_that_is_not_below_the_best_on_validation_starts_is_kept(whole: Path):
    number = kept(whole, "step_000001", "step_000002")
    name = f"step_{number:06d}"
    assert read_history(whole / "checkpoints").best == name
    summary = json.loads((whole / "summary.json").read_text())
    assert summary["best_checkpoint"] == name
    trials = {one.trial for one in read_results(whole / "eval/validation/step_000001.parquet")}
    assert trials == {2000, 2001, 2002, 2003}  # of the toy env: 2000 to 2999


@pytest.mark.long
@pytest.mark.parametrize("worse", [1, 2])
def test_held_out_starts_are_played_once_with_the_one_that_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, worse: int
):
    """The evaluation after one of the two updates is made to fail, whatever was learned."""
    choose = train_stages.evaluate_to_choose

    def failing(session, label: str, update: int, policy: str = ""):
        rows = choose(session, label, update, policy)
        return [replace(row, success=update != worse) for row in rows]

    monkeypatch.setattr(train_stages, "evaluate_to_choose", failing)
    run = start(tmp_path, "rollout.eval_deterministic=false")
    rows = read_results(run / "eval/validation/step_000002.parquet")
    assert {row.replica for row in rows} == {0, 1}, "two passes of a policy that draws"
    name = f"step_00000{3 - worse}"
    assert read_history(run / "checkpoints").best == name
    assert not (run / "eval/best.parquet").exists()
    stored = read_results(run / "checkpoints" / name / "evaluation.parquet")
    assert stored == read_results(run / "eval/after.parquet")
    summary = json.loads((run / "summary.json").read_text())
    assert summary["success_best"] == summary["success_after"]
    words = ["eval", str(run / "checkpoints" / name), "--verify"]
    assert main([*words, f"runner.logger.log_path={tmp_path}"]) == 0


@pytest.mark.parametrize("stopped", [1, 2])
def test_a_run_that_was_stopped_before_validation_is_judged_on_resume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stopped: int, whole: Path
):
    due = train_stages.checkpoint_is_due

    def struck(runner, update: int, *steps: int):
        if update == stopped:
            signal.raise_signal(signal.SIGINT)
        return due(runner, update, *steps)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(train_stages, "checkpoint_is_due", struck)
        start(tmp_path)
    run = tmp_path / "run"
    name = f"step_00000{stopped}"
    assert not (run / f"eval/validation/{name}.parquet").exists()
    go_on(run)
    state = json.loads((run / f"checkpoints/{name}/state.json").read_text())["state"]
    assert not state["unjudged"]
    played = read_results(run / f"eval/validation/{name}.parquet")
    assert played == read_results(whole / f"eval/validation/{name}.parquet")
    assert read_history(run / "checkpoints").best == read_history(whole / "checkpoints").best


def test_an_irregular_checkpoint_of_a_stopped_run_is_judged_by_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """With save_interval=2 the run writes a checkpoint after update 1 only because it stops."""
    due = train_stages.checkpoint_is_due

    def struck(runner, update: int, *steps: int):
        if update == 1:
            signal.raise_signal(signal.SIGINT)
        return due(runner, update, *steps)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(train_stages, "checkpoint_is_due", struck)
        start(tmp_path, "runner.save_interval=2")
    run = tmp_path / "run"
    go_on(run)
    assert not (run / "eval/validation/step_000001.parquet").exists()
    assert read_history(run / "checkpoints").best == "step_000002"


def test_forgetting_is_measured_on_tasks_that_are_not_trained_on(whole: Path):
    found = json.loads((whole / "summary.json").read_text())["forgetting"]
    sides = [round(rate(whole, f"forgetting/{when}", 3), 6) for when in ("before", "after")]
    assert found["tasks"] == ["reach-right"]
    assert [found["success_before"]["rate"], found["success_after"]["rate"]] == sides


def test_a_control_is_chosen_by_the_same_rule_and_logged_apart(whole: Path):
    assert kept(whole, "control_1", "control_2") in (1, 2)
    summary = json.loads((whole / "summary.json").read_text())
    assert not (whole / "eval/control_best.parquet").exists(), "the control is played once"
    assert summary["success_control"]["rate"] == rate(whole, "control", 4)
    logged = {line["step"]: line for line in numbers(whole) if "eval/success_once" in line}
    assert logged[2]["eval/success_once"] == rate(whole, "after", 4)
    history = json.loads((whole / "control.json").read_text())
    assert history["steps"] > 0


@pytest.mark.parametrize(
    ("save", "validate", "best", "parts"),
    [
        (2, 1, {"step_000002", "step_000003"}, 2),  # update 1 has no checkpoint
        (4, 2, {None}, 1),  # the last checkpoint is of update 3, which played no validation starts
    ],
)
def test_a_checkpoint_is_judged_by_its_own_evaluation(
    tmp_path: Path, save: int, validate: int, best: set[str | None], parts: int
):
    run = start(
        tmp_path,
        *("sft.control=demonstrations", "runner.max_epochs=3", "env.forgetting.tasks=[]"),
        *(f"runner.save_interval={save}", f"runner.val_check_interval={validate}"),
    )
    assert read_history(run / "checkpoints").best in best
    judged = [*(run / "eval/validation").glob("control_*.parquet")]
    assert len(judged) == parts


def test_a_control_is_as_much_work_as_the_run(whole: Path):
    """What the run trained on, and a third of its decisions, in whole batches; the summary says
    so."""
    summary = json.loads((whole / "summary.json").read_text())
    control = summary["control"]
    updates = [line for line in numbers(whole) if "train/actor/trained_samples" in line]
    trained = sum(line["train/actor/trained_samples"] for line in updates)
    decisions = -(-summary["env_steps"] // 2) + summary["episodes"]  # the toy's chunks are of 2
    assert control["gradient_samples"] == trained > 0
    assert control["decisions"] == decisions
    assert control["samples"] == trained + -(-decisions // 3)
    assert control["steps"] == -(-control["samples"] // control["batch_size"])
    assert json.loads((whole / "control.json").read_text())["work"] == control


def test_a_finished_run_gets_its_control_by_resuming(tmp_path: Path, refused):
    words = ("runner.max_epochs=1", "env.forgetting.tasks=[]")
    at_once = start(tmp_path / "at_once", *words, "sft.control=demonstrations")
    later = start(tmp_path / "later", *words)
    with refused(ConfigError, "sft.control=own_successes", str(later)):  # ppo keeps no successes
        go_on(later, "sft.control=own_successes")
    after = (later / "eval/after.parquet").read_bytes()
    go_on(later, "sft.control=demonstrations")
    assert digests(later / "control") == digests(at_once / "control")
    assert after == (later / "eval/after.parquet").read_bytes()
    summaries = [json.loads((run / "summary.json").read_text()) for run in (at_once, later)]
    first, second = (each["success_control"] for each in summaries)
    assert first == second
    with refused(ConfigError, str(later)):
        go_on(later, "sft.control=demonstrations")


@pytest.mark.parametrize("algorithm", ["rft", pytest.param("expo", marks=pytest.mark.long)])
def test_a_finished_run_with_a_replay_gets_the_control_of_its_successes(
    tmp_path: Path, algorithm: str
):
    words = ("runner.max_epochs=2", "env.forgetting.tasks=[]", f"algorithm={algorithm}")
    at_once = start(tmp_path / "at_once", *words, "sft.control=own_successes")
    later = start(tmp_path / "later", *words)
    go_on(later, "sft.control=own_successes")
    assert digests(later / "control") == digests(at_once / "control")


def test_a_control_depends_neither_on_load_nor_on_an_interruption(
    whole: Path, tmp_path: Path, monkeypatch
):
    """A machine that is slow, and a worker that dies in the control's fourth step."""
    step, left = SupervisedTrainer._step, [1]

    def slow_and_dying(self, batch, rows, number):
        time.sleep(0.01)
        if number == 20 + 3 and left:  # the start has 20 steps
            left.clear()
            raise WorkerError("the worker is gone")
        return step(self, batch, rows, number)

    monkeypatch.setattr(SupervisedTrainer, "_step", slow_and_dying)
    with pytest.raises(WorkerError):
        start(tmp_path, "sft.control=own_successes")
    run = tmp_path / "run"
    go_on(run)
    assert not left
    first, second = (json.loads((each / "control.json").read_text()) for each in (whole, run))
    for timed in ("seconds", "waited"):
        first.pop(timed, None), second.pop(timed, None)
    assert first == second
    assert digests(whole / "control") == digests(run / "control")
    assert_same(whole, run)


def fail(*_: object, **__: object) -> None:
    raise WorkerError("the worker is gone")


@pytest.fixture
def unjudged(tmp_path: Path, monkeypatch) -> Path:
    """A run whose control is complete, and which was killed before its summary was written."""
    with monkeypatch.context() as interrupted:
        interrupted.setattr(train_stages, "conclude", fail)
        with pytest.raises(WorkerError):
            start(tmp_path, "sft.control=own_successes", "runner.keep_best=false")
    return tmp_path / "run"


def test_a_complete_control_is_not_trained_again(unjudged: Path, tmp_path: Path, monkeypatch):
    whole = start(tmp_path / "whole", "sft.control=own_successes", "runner.keep_best=false")
    monkeypatch.setattr(SupervisedTrainer, "_step", fail)
    go_on(unjudged)
    assert digests(whole / "control") == digests(unjudged / "control")
    assert_same(whole, unjudged)


def test_a_control_with_other_settings_is_trained_again(unjudged: Path):
    before = digests(unjudged / "control")
    go_on(unjudged, "sft.control=demonstrations")
    assert digests(unjudged / "control") != before


def test_without_supervised_steps_a_run_begins_from_the_given_weights(whole: Path, tmp_path: Path):
    """So that several runs, each with a control of its own, share one start."""
    begun = [f"actor.model.model_path={whole / 'sft'}", f"collect.path={whole / 'demonstrations'}"]
    run = start(tmp_path, "sft.control=demonstrations", *begun, "sft.max_steps=0")
    assert digests(run / "sft") == digests(whole / "sft")
    assert json.loads((run / "sft.json").read_text())["steps"] == 0
    history = json.loads((run / "control.json").read_text())
    assert history["steps"] > 0
    assert history["train_loss"][0][0] == 20, "batches are keyed by step: the start had 0 to 19"


def test_more_supervised_training_has_batches_that_the_start_had_not(whole: Path, tmp_path: Path):
    begun = [f"actor.model.model_path={whole / 'sft'}", f"collect.path={whole / 'demonstrations'}"]
    words = [*TRAINING, *begun, "sft.max_steps=5", f"runner.logger.log_path={tmp_path}"]
    assert main(["sft", *words, "runner.logger.experiment_name=first"]) == 0
    history = json.loads((tmp_path / "first/sft.json").read_text())
    assert [step for step, _ in history["train_loss"]] == [20, 21, 22, 23, 24]
    begun[0] = f"actor.model.model_path={tmp_path / 'first/sft'}"
    words = [*TRAINING, *begun, "sft.max_steps=4", "sft.until=plateau", "sft.max_doublings=2"]
    words += [f"runner.logger.log_path={tmp_path}", "runner.logger.experiment_name=second"]
    assert main(["sft", *words]) == 0
    history = json.loads((tmp_path / "second/sft.json").read_text())
    assert [step for step, _ in history["train_loss"]] == [*range(25, 41)]
    assert [played["steps"] for played in history["rounds"]] == [4, 8, 16]


def digests(folder: Path) -> dict[str, str]:
    """Of the weights in it."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*.safetensors"))
    }


@pytest.mark.long
def test_a_resumed_run_measures_the_same(tmp_path: Path):
    run = start(tmp_path)
    again = tmp_path / "again"
    shutil.copytree(run, again)
    go_on(again / "checkpoints" / "step_000001")
    assert_same(run, again)
    for label in ("forgetting/before", "forgetting/after", "validation/step_000002"):
        assert read_results(again / "eval" / f"{label}.parquet") == read_results(
            run / "eval" / f"{label}.parquet"
        )
