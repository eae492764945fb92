"""Runs of `rlcore sft` without an algorithm: used, resumed and gone on from like any other."""

from __future__ import annotations

import errno
import json
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest
from internals import PolicyOptimizer, learner_state, load_checkpoint, supervised_phase
from resume_cases import go_on
from safetensors.torch import load_file
from sameness import numbers

from rlcore.cli.main import main
from rlcore.contracts.errors import CheckpointError, ConfigError, WorkerError
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


SAVING = "sft.save_interval=8"


@contextmanager
def before_step(number: int, act: Callable[[], None]) -> Iterator[None]:
    """Call `act` once, before the optimizer step of that number (from 0) within the block."""
    step = PolicyOptimizer.step
    made = count()
    acted = []

    def acting(self):
        if next(made) == number:
            acted.append(act)
            act()
        return step(self)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(PolicyOptimizer, "step", acting)
        yield
    assert acted


def lose_the_worker() -> None:
    raise WorkerError("the worker is gone")


def interrupted(log_path: Path, *more: str) -> Path:
    """A run whose worker is lost in step 20, after the save of step 16."""
    with before_step(20, lose_the_worker):
        assert main(["sft", *words(log_path, "cut", SAVING, *more)]) != 0
    run = log_path / "cut"
    assert [path.name for path in (run / "sft_steps").iterdir()] == ["step_00000016"]
    return run


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_the_training_and_resume_goes_on_to_the_same_bits(
    learned: Path, log_path: Path, stop: signal.Signals, capsys
):
    with before_step(11, lambda: signal.raise_signal(stop)):
        assert main(["sft", *words(log_path, "cut", SAVING)]) == 128 + stop
    run = log_path / "cut"
    assert f"stopped after supervised step 16; to continue: rlcore resume {run}" in (
        capsys.readouterr().out
    )
    assert main(["resume", str(run)]) == 0
    assert "sft: continues after step 16" in capsys.readouterr().out
    assert outcome(run) == outcome(learned)
    assert numbers(run) == numbers(learned)  # each loss is logged once
    assert not (run / "sft_steps").exists()


def test_without_an_interval_a_signal_saves_too(log_path: Path, monkeypatch):
    monkeypatch.setattr(supervised_phase, "PART_SECONDS", 0.0)  # each call makes one step
    with before_step(11, lambda: signal.raise_signal(signal.SIGINT)):
        assert main(["sft", *words(log_path, "cut", "sft.save_interval=null")]) == 130
    assert (log_path / "cut/sft_steps/step_00000012").is_dir()


def test_a_lost_worker_costs_the_steps_since_the_last_save(learned: Path, log_path: Path):
    run = interrupted(log_path)
    with before_step(30 - 16, lose_the_worker):
        assert main(["resume", str(run)]) != 0
    assert [path.name for path in (run / "sft_steps").iterdir()] == ["step_00000024"]
    assert main(["resume", str(run), "sft.save_interval=null"]) == 0
    assert outcome(run) == outcome(learned)
    assert numbers(run) == numbers(learned)


PI0 = ("model=pi0_tiny", "env.eval.trials_per_task=1", "sft.max_steps=22")


@pytest.mark.parametrize(
    "more",
    [
        ("actor.model.is_lora=true", "actor.model.openpi.train_expert_only=false"),
        ("actor.model.precision=bf16", "sft.lr_scheduler=cosine"),
    ],
    ids=["adapters", "bf16"],
)
def test_saved_steps_have_what_a_saved_policy_lacks(log_path: Path, more: tuple[str, ...]):
    """Adapters, which it has merged into its weights, and fp32 copies of bf16 weights."""
    assert main(["sft", *words(log_path, "whole", *PI0, *more)]) == 0
    run = interrupted(log_path, *PI0, *more)
    assert main(["resume", str(run)]) == 0
    assert outcome(run) == outcome(log_path / "whole")


def test_a_policy_that_was_saved_on_the_way_can_be_used(log_path: Path):
    policy = interrupted(log_path) / "sft_steps/step_00000016/policy"
    path = f"actor.model.model_path={policy}"
    assert main(["eval", *WORDS[:3], path, f"runner.logger.log_path={log_path}"]) == 0


def test_a_run_that_begins_from_such_a_policy_draws_other_batches(log_path: Path):
    policy = interrupted(log_path) / "sft_steps/step_00000016/policy"
    assert main(["sft", *words(log_path, "on", f"actor.model.model_path={policy}")]) == 0
    losses = json.loads((log_path / "on/sft.json").read_text())["train_loss"]
    assert losses[0][0] == 16


def test_an_unfinished_state_and_a_copy_are_ignored(learned: Path, log_path: Path):
    """A kill leaves the first, a user the second."""
    run = interrupted(log_path)
    states = run / "sft_steps"
    partial = states / ".partial-1-step_00000024/policy"
    partial.mkdir(parents=True)
    (partial / "config.json").write_text("{")
    shutil.copytree(states / "step_00000016", states / "step_00000016 copy")
    assert main(["resume", str(run), "--verify"]) == 0
    assert outcome(run) == outcome(learned)


def test_a_run_that_resumes_itself_counts_supervised_steps_as_progress(log_path: Path, capsys):
    """Workers are lost twice, and each attempt has saved more than the one before it."""
    config = ["algorithm=ppo", "runner.max_epochs=1", "sft.enabled=true"]
    own = words(log_path, "run", SAVING, *config, "runner.auto_resume=true")
    step = PolicyOptimizer.step
    made = count()

    def losing(self):
        if next(made) in (20, 20 + 1 + 10):  # from 16, 10 steps more are 26
            lose_the_worker()
        return step(self)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(PolicyOptimizer, "step", losing)
        assert main(["train", *own]) == 0
    said = capsys.readouterr().out
    assert "going on from supervised step 16" in said
    assert "going on from supervised step 24" in said
    assert "its updates are made again" not in said


def test_a_full_disk_is_one_error(log_path: Path, monkeypatch, capsys):
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(learner_state, "write_learner", full)
    assert main(["sft", *words(log_path, "run", SAVING)]) == CheckpointError.exit_code
    said = capsys.readouterr().err
    assert "can't write" in said and "sft_steps" in said and "free some space" in said
    assert "Traceback" not in said


def test_a_signal_after_the_last_step_stops_the_run(learned: Path, log_path: Path, monkeypatch):
    finish = supervised_phase.SupervisedTraining.train

    def signalled(*arguments, **options):
        finish(*arguments, **options)
        signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patched:
        patched.setattr(supervised_phase.SupervisedTraining, "train", signalled)
        assert main(["sft", *words(log_path, "cut")]) == 130
    assert main(["resume", str(log_path / "cut")]) == 0
    assert outcome(log_path / "cut") == outcome(learned)
    assert numbers(log_path / "cut") == numbers(learned)


def test_other_settings_and_damaged_files_are_refused_before_anything_changes(
    log_path: Path, refused
):
    run = interrupted(log_path)
    metrics = (run / "metrics.jsonl").read_bytes()
    with refused(ConfigError, "sft.lr", "0.5", "sft_steps", text=False):
        go_on(run, "sft.lr=0.5")
    state = run / "sft_steps/step_00000016"
    for name in ("learner.json", "learner.safetensors", "policy/model.safetensors"):
        content = (state / name).read_bytes()
        (state / name).write_bytes(content[:-1] + b"x")
        with refused(CheckpointError, name, text=False):
            go_on(run)
        (state / name).write_bytes(content)
    assert (run / "metrics.jsonl").read_bytes() == metrics


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
