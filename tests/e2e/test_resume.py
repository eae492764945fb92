"""Resumed equals uninterrupted: the same numbers and, bit for bit, the same weights."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch
from internals import assemble, compose, load_checkpoint, read_history, session, train, train_stages
from resume_cases import COMMON, Failing, go_on
from rlcore_testing.toy_policy import ToyPolicy
from sameness import assert_same, numbers

from rlcore.cli.main import main
from rlcore.config.compose import load
from rlcore.config.recipes import read_mapping
from rlcore.contracts.errors import CheckpointError, ConfigError, RunWarning, WorkerError
from rlcore.files import lock
from rlcore.learner.micro_batches import MicroBatches
from rlcore.runs.folder import RunFolder

FULL = "whole"


def start(log_path: Path, name: str, *overrides: str) -> Path:
    names = [f"runner.logger.log_path={log_path}", f"runner.logger.experiment_name={name}"]
    train(assemble(compose([*COMMON, *names, *overrides])))
    return log_path / name


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of four updates that nothing interrupted."""
    return start(tmp_path_factory.mktemp("runs"), FULL)


@pytest.mark.long
def test_after_a_shorter_run(log_path: Path, whole: Path):
    run = start(log_path, "short", "runner.max_epochs=2")
    go_on(run, "runner.max_epochs=4")
    assert_same(run, whole)


@pytest.mark.long
def test_from_an_earlier_checkpoint(
    log_path: Path, whole: Path, capsys: pytest.CaptureFixture[str]
):
    run = start(log_path, "short")
    (run / "summary.json").unlink()
    train(
        assemble(load(run / "config.yaml", [f"runner.resume_dir='{run}/checkpoints/step_000001'"]))
    )
    assert_same(run, whole)
    aside = run / "checkpoints" / "superseded"
    said = capsys.readouterr().out
    assert "set aside, as the run goes on from step_000001: step_000002, step_000003, step" in said
    assert [p.name for p in sorted(aside.iterdir())] == [f"step_00000{n}" for n in (2, 3, 4)]
    gone = aside / "step_000003"
    with pytest.raises(CheckpointError, match="the run can't go on from it"):
        train(assemble(load(run / "config.yaml", [f"runner.resume_dir='{gone}'"])))


@pytest.mark.long
def test_after_a_failure_before_the_first_checkpoint(
    log_path: Path, whole: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(train_stages, "update_policy", Failing(train_stages.update_policy, [0]))
    with pytest.raises(WorkerError):
        start(log_path, "broken")
    run = log_path / "broken"
    assert (run / "sft").is_dir() and not (run / "checkpoints").exists()
    go_on(run)
    assert_same(run, whole)


@pytest.mark.long
@pytest.mark.parametrize(
    "step",
    [
        "rollout",
        *(pytest.param(name, marks=pytest.mark.long) for name in ("improve", "checkpoint")),
    ],
)
def test_a_failure_again_and_again(
    log_path: Path,
    whole: Path,
    step: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.setattr(train_stages, step, Failing(vars(train_stages)[step], [1, 3]))
    run = start(log_path, "brittle", "runner.auto_resume=true")
    assert capsys.readouterr().out.count("going on from update") == 2
    assert_same(run, whole)


@pytest.mark.long
def test_no_progress_ends_it(log_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(
        train_stages, "update_policy", Failing(train_stages.update_policy, [2, 2, 2])
    )
    with pytest.raises(WorkerError, match="told to fail"):
        start(log_path, "hopeless", "runner.auto_resume=true")
    assert load_checkpoint(log_path / "hopeless").step == 2


@pytest.mark.long
def test_ranks_in_lockstep_go_on_with_smaller_micro_batches(
    log_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """Memory takes four rows: 16 -> 8 -> 4, and what comes out is what four give from the start.
    One process stands for the ranks, none of which can halve its own micro-batches."""
    short = ["runner.max_epochs=1", "sft.enabled=false", "env.eval.trials_per_task=1"]
    small = start(log_path, "small", "actor.micro_batch_size=4", *short)
    whole, alone = ToyPolicy.evaluate, MicroBatches.__init__

    def evaluate(policy, inputs, replay):
        if any(len(rows) > 4 for rows in inputs.values()):
            raise torch.OutOfMemoryError("CUDA out of memory")
        return whole(policy, inputs, replay)

    monkeypatch.setattr(ToyPolicy, "evaluate", evaluate)
    monkeypatch.setattr(
        MicroBatches, "__init__", lambda self, size, lockstep: alone(self, size, lockstep=True)
    )
    with pytest.warns(RunWarning, match="goes on with actor.micro_batch_size="):
        run = start(log_path, "large", "runner.auto_resume=true", *short)
    assert capsys.readouterr().out.count("going on from update 0") == 2
    assert read_mapping(run / "config.yaml")["actor"]["micro_batch_size"] == 4
    assert_same(run, small)


def test_the_same_command_again_goes_on(
    log_path: Path, whole: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(train_stages, "update_policy", Failing(train_stages.update_policy, [2]))
    with pytest.raises(WorkerError):
        start(log_path, "job")
    run = start(log_path, "job", "runner.auto_resume=true")
    assert [path.name for path in log_path.iterdir()] == ["job"]
    assert_same(run, whole)


@pytest.mark.quick(1)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_makes_a_checkpoint(
    log_path: Path, whole: Path, number: signal.Signals, capsys: pytest.CaptureFixture[str]
):
    run = log_path / "stopped"

    def interrupt_once_under_way() -> None:
        while not (run / "checkpoints" / "latest").is_file():
            time.sleep(0.01)
        os.kill(os.getpid(), number)

    threading.Thread(target=interrupt_once_under_way, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        start(log_path, "stopped", "runner.max_epochs=1000")
    step = load_checkpoint(run).step
    assert 1 <= step < 1000
    said = capsys.readouterr().out
    assert f"{number.name}: stopping" in said
    assert f"stopped after update {step}; to continue: rlcore resume {run}" in said
    assert not (run / "summary.json").exists()
    if step < 4:
        go_on(run, "runner.max_epochs=4")
        assert_same(run, whole)


@pytest.mark.long
def test_a_stop_does_not_change_which_is_the_best(log_path: Path, monkeypatch: pytest.MonkeyPatch):
    asked = ["runner.save_interval=2", "runner.keep_best=true"]
    run, improve = log_path / "stopped", train_stages.update_policy

    def stopped_in_third(session: session.Session, update: int) -> dict[str, float]:
        if update == 2:
            os.kill(os.getpid(), signal.SIGTERM)
        return improve(session, update)

    monkeypatch.setattr(train_stages, "update_policy", stopped_in_third)
    with pytest.raises(KeyboardInterrupt):
        start(log_path, "stopped", *asked)
    monkeypatch.undo()
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    success = [line["env/success_once"] for line in lines if "env/success_once" in line]
    at = load_checkpoint(run)
    assert at.step == 3 and at.state["successes"] == success[2:]
    assert at.state["best"] == (success[0] + success[1]) / 2
    assert read_history(run / "checkpoints").best == "step_000002"
    go_on(run)
    uninterrupted = start(log_path, "uninterrupted", *asked)
    assert load_checkpoint(run).state["best"] == load_checkpoint(uninterrupted).state["best"]
    best = read_history(uninterrupted / "checkpoints").best
    assert read_history(run / "checkpoints").best == best


@pytest.mark.long
def test_the_best_is_chosen_on_validation_starts(log_path: Path):
    every = ["runner.save_interval=1", "runner.val_check_interval=1", "env.eval.split=validation"]
    run = start(log_path, "chosen", "runner.keep_best=true", *every)
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    seen = {line["step"]: line["eval/success_once"] for line in lines if "eval/return" in line}
    assert set(seen) == {0, 1, 2, 3, 4}, "the last update takes part"
    del seen[0]  # before training there is no checkpoint
    assert load_checkpoint(run).state["best"] == max(seen.values())
    best = max(seen, key=lambda step: seen[step])
    assert read_history(run / "checkpoints").best == f"step_{best:06d}"


def test_the_command(log_path: Path, capsys: pytest.CaptureFixture[str]):
    run = start(log_path, "short", "runner.max_epochs=1")
    assert main(["resume", str(run)]) == ConfigError.exit_code
    assert "is finished: 1 of 1 updates are done" in capsys.readouterr().err
    assert main(["resume", str(run), "runner.max_epochs=2"]) == 0
    assert load_checkpoint(run).step == 2
    assert main(["resume"]) == ConfigError.exit_code
    assert "which run should be resumed?" in capsys.readouterr().err
    assert main(["resume", str(log_path / "gone")]) == CheckpointError.exit_code
    assert "there is no run at" in capsys.readouterr().err


def test_two_at_once(log_path: Path, capsys: pytest.CaptureFixture[str]):
    run = start(log_path, "short", "runner.max_epochs=1")
    files = contents(run)
    with RunFolder.open(run).locked():
        assert main(["resume", str(run), "runner.max_epochs=2"]) == CheckpointError.exit_code
        assert f"{run} is in use by process {os.getpid()} on" in capsys.readouterr().err
        assert main(["report", str(run), "--output", str(log_path / "r.html")]) == 0  # reads
    assert contents(run) == files


@pytest.mark.long
def test_where_the_file_system_has_no_locks(
    log_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    def refused(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr(lock.fcntl, "flock", refused)
    with pytest.raises(CheckpointError, match="has no locks"):
        start(log_path, "unlocked", "runner.max_epochs=1")
    assert not any(log_path.iterdir())
    run = start(log_path, "unlocked", "runner.max_epochs=1", "runner.logger.require_lock=false")
    files = contents(run)
    again = ["resume", str(run), "runner.max_epochs=2"]
    assert main([*again, "runner.logger.require_lock=true"]) == CheckpointError.exit_code
    assert "runner.logger.require_lock=false" in capsys.readouterr().err
    assert contents(run) == files
    assert main(again) == 0  # as the run was begun
    assert load_checkpoint(run).step == 2


@pytest.mark.long
def test_one_that_fails_to_start_leaves_the_run_as_it_was(
    log_path: Path, whole: Path, monkeypatch: pytest.MonkeyPatch
):
    run = start(log_path, "short", "runner.max_epochs=2")
    files = contents(run)

    def lost(plan: object) -> None:
        raise WorkerError("no cluster at that address")

    with monkeypatch.context() as patch:
        patch.setattr(session, "make_group", lost)
        changes = ["runner.max_epochs=4", "actor.optim.lr=1.0", "cluster.torch_threads=2"]
        for at in (run, run / "checkpoints/step_000001"):
            with pytest.raises(WorkerError):
                train(assemble(load(run / "config.yaml", [f"runner.resume_dir='{at}'", *changes])))
    assert contents(run) == files
    go_on(run, "runner.max_epochs=4")
    assert_same(run, whole)
    entries = sorted(path.name for path in (run / "attempts").iterdir())
    assert entries == ["0001", "0002"]
    for name in ("config.yaml", "manifest.json"):
        assert (run / name).read_text() == (run / "attempts/0002" / name).read_text()
    manifests = [json.loads((run / "attempts" / e / "manifest.json").read_text()) for e in entries]
    assert [manifest["went_on_from"] for manifest in manifests] == [None, "step_000002"]
    first = read_mapping(run / "attempts/0001/config.yaml")
    assert first["runner"]["max_epochs"] == 2  # type: ignore[index]
    # what the first came to is kept with it
    outcome = sorted(path.name for path in (run / "attempts/0001/outcome").iterdir())
    assert outcome == ["after.parquet", "report.html", "summary.json"]


@pytest.mark.long
def test_what_a_checkpoint_stands_on(log_path: Path, capsys: pytest.CaptureFixture[str]):
    run = start(log_path, "short", "runner.max_epochs=2")
    other = start(log_path, "other", "runner.max_epochs=1", "runner.seed=1")
    metrics, before = run / "metrics.jsonl", run / "eval" / "before.parquet"
    text = metrics.read_text()
    # metrics that reach only to the first checkpoint: from there it can be gone on
    first = load_checkpoint(run / "checkpoints/step_000001")
    metrics.write_text(text[: first.state["stands_on"]["metrics.jsonl"]["size"]])
    with pytest.raises(CheckpointError, match=r"metrics\.jsonl is cut off: .*step_000002") as error:
        go_on(run, "runner.max_epochs=3")
    assert error.value.hint == (
        f"put it back; or resume from a checkpoint it covers: rlcore resume {first.path}"
    )
    metrics.write_text((other / "metrics.jsonl").read_text() * 9)
    with pytest.raises(CheckpointError, match=r"does not begin with the .* or of another run"):
        go_on(run, "runner.max_epochs=3")
    capsys.readouterr()
    assert main(["report", str(run), "--output", str(log_path / "r.html")]) == 0
    said = "metrics.jsonl does not begin with the"
    assert f"warning: {run}: {said}" in capsys.readouterr().err
    assert said in (log_path / "r.html").read_text()
    metrics.write_text(text)
    # an evaluation of another run is not read back, nor is one that was never finished
    before.write_bytes((other / "eval" / "before.parquet").read_bytes())
    (run / "eval" / ".partial-1-after.parquet").write_bytes(b"PAR1")
    assert main(["report", str(run)]) == 0
    go_on(run, "runner.max_epochs=3")
    assert "before.parquet does not begin with" in (said := capsys.readouterr().out)
    assert "it is made again" in said
    assert not list(run.rglob(".partial*"))


@pytest.mark.long
def test_a_damaged_evaluation_is_made_again(
    log_path: Path, whole: Path, capsys: pytest.CaptureFixture[str]
):
    run = start(log_path, "short", "runner.max_epochs=2")
    before = run / "eval" / "before.parquet"
    before.write_bytes(before.read_bytes()[:100])
    go_on(run, "runner.max_epochs=4")
    assert "before.parquet is cut off: 100 bytes" in capsys.readouterr().out
    assert before.read_bytes() == (whole / "eval" / "before.parquet").read_bytes()


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")  # the tracker's, and its thread's
def test_the_folder_is_moved_while_it_runs(
    log_path: Path, whole: Path, monkeypatch: pytest.MonkeyPatch
):
    moved = log_path / "moved"
    make = train_stages.update_policy

    def move(session: session.Session, update: int) -> dict[str, float]:
        if update == 2 and not moved.exists():
            session.folder.path.rename(moved)
        return make(session, update)

    monkeypatch.setattr(train_stages, "update_policy", move)
    with pytest.raises(CheckpointError, match="was moved, removed or replaced"):
        start(log_path, "short")
    go_on(moved)
    assert_same(moved, whole)


@pytest.mark.long
def test_checkpoints_that_are_moved_away_while_it_runs(
    log_path: Path, whole: Path, monkeypatch: pytest.MonkeyPatch
):
    """Also by the same place of another run: no history of both is ever written."""
    make, run, away = train_stages.update_policy, log_path / "short", log_path / "away"

    def move(session: session.Session, update: int) -> dict[str, float]:
        if update == 2 and not away.exists():
            (run / "checkpoints").rename(away)
        return make(session, update)

    monkeypatch.setattr(train_stages, "update_policy", move)
    with pytest.raises(CheckpointError, match="its latest checkpoint is none instead of step_0000"):
        start(log_path, "short")
    assert not (run / "checkpoints").exists()
    away.rename(run / "checkpoints")
    away.mkdir()  # not once more
    go_on(run)
    assert_same(run, whole)


@pytest.mark.long
def test_metrics_that_are_removed_while_it_runs(
    log_path: Path, whole: Path, monkeypatch: pytest.MonkeyPatch
):
    make = train_stages.update_policy

    def remove(session: session.Session, update: int) -> dict[str, float]:
        if update == 2:
            session.folder.metrics.unlink()
        return make(session, update)

    monkeypatch.setattr(train_stages, "update_policy", remove)
    with pytest.warns(UserWarning, match="is put back"):
        run = start(log_path, "short", "runner.max_epochs=3")
    go_on(run, "runner.max_epochs=4")
    assert_same(run, whole)


@pytest.mark.long
def test_a_run_whose_checkpoints_are_gone_says_that_it_begins_again(
    log_path: Path, whole: Path, capsys: pytest.CaptureFixture[str]
):
    run = start(log_path, "short", "runner.max_epochs=2")
    shutil.rmtree(run / "checkpoints")
    go_on(run, "runner.max_epochs=4")
    assert "the run has no checkpoint: its updates are made again" in capsys.readouterr().out
    assert_same(run, whole)


def contents(run: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}


@pytest.mark.long
def test_a_run_of_an_earlier_version_is_refused_and_left_as_it_was(
    log_path: Path, capsys: pytest.CaptureFixture[str]
):
    run = start(log_path, "older", "runner.max_epochs=2")
    for state in run.glob("checkpoints/*/state.json"):
        state.write_text(json.dumps({**json.loads(state.read_text()), "version": 2}))
    files = contents(run)
    for at in (run, run / "checkpoints" / "step_000001"):
        assert main(["resume", str(at), "runner.max_epochs=3"]) == CheckpointError.exit_code
        said = " ".join(capsys.readouterr().err.split())
        assert "has checkpoint format 2, this version reads" in said
        assert "take the newest before it that is whole" not in said
        assert contents(run) == files


def test_another_seed_is_refused(log_path: Path):
    run = start(log_path, "short", "runner.max_epochs=1")
    with pytest.raises(CheckpointError, match=r"seed 0, runner\.seed is 1"):
        go_on(run, "runner.max_epochs=2", "runner.seed=1")


@pytest.mark.quick(3)
@pytest.mark.parametrize(
    ("wishes", "said"),
    [
        (["runner.max_epochs=3"], "runner.max_epochs=3 is below what .* has done: 4 updates"),
        (["runner.max_steps=20"], r"runner.max_steps=20 is below what .* has done: \d+ env steps"),
        (["runner.only_eval=true", "runner.max_epochs=5"],
         r"runner.only_eval must be false .* rlcore eval .*/whole"),
        (["runner.max_epochs=5", "sft.enabled=false"],
         "sft.enabled can't be changed to false: .*/whole began with true and resumes from step_0"),
        (["runner.max_epochs=5", "actor.model.model_path={run}/checkpoints/step_000004/actor"],
         "actor.model.model_path can't be changed to .*/whole began with null"),
        (["runner.max_epochs=5", "rollout.model.model_path={run}/checkpoints/step_000004/actor"],
         "model.model_path can't be changed to .*/whole began with null"),
    ],
)  # fmt: skip
def test_a_wish_that_can_not_be_met_leaves_the_run_alone(whole: Path, wishes: list[str], said: str):
    wishes = [wish.format(run=whole) for wish in wishes]
    files = {path: path.read_bytes() for path in whole.rglob("*") if path.is_file()}
    with pytest.raises(ConfigError, match=said):
        go_on(whole, *wishes)
    assert files == {path: path.read_bytes() for path in whole.rglob("*") if path.is_file()}


@pytest.mark.long
def test_a_reference_that_was_never_kept_leaves_the_run_alone(log_path: Path):
    run = start(log_path, "free", "algorithm.kl_beta=0", "sft.enabled=false", "runner.max_epochs=1")
    files = contents(run)
    with pytest.raises(CheckpointError, match=r"step_000001 was written without reference weights"):
        go_on(run, "runner.max_epochs=2", "algorithm.kl_beta=0.1")
    assert contents(run) == files
    with pytest.raises(ConfigError, match=r"sft.enabled can't be changed to true"):
        go_on(run, "runner.max_epochs=2", "sft.enabled=true")
    assert contents(run) == files


@pytest.mark.parametrize(
    "word",
    ["runner.logger.experiment_name=other", "runner.logger.log_path=/x", "runner.resume_dir=null"],
)
def test_the_folder_of_a_run_is_its_own(whole: Path, word: str, capsys: pytest.CaptureFixture[str]):
    assert main(["resume", str(whole), "runner.max_epochs=5", word]) == 2
    assert f"error: {word}: a run is resumed in its own folder" in capsys.readouterr().err


@pytest.mark.long
def test_keys_that_come_too_late_are_announced(log_path: Path, capsys: pytest.CaptureFixture[str]):
    run = start(log_path, "late", "runner.max_epochs=1")
    with pytest.warns(UserWarning, match="sft.max_steps has no effect: .* step_000001"):
        go_on(run, "runner.max_epochs=2", "sft.max_steps=31")


@pytest.mark.long
def test_a_limit_of_env_steps_counts_what_was_done(log_path: Path):
    """An update plays 8 envs for at most 20 steps, so it ends training and leads beyond."""
    run = start(log_path, "steps", "runner.max_epochs=-1", "runner.max_steps=10")
    steps = load_checkpoint(run).state["totals"]["env_steps"]
    assert load_checkpoint(run).step == 1 and steps > 10
    with pytest.raises(ConfigError, match=rf"is finished: {steps} of 10 env steps are done"):
        go_on(run)
    (run / "summary.json").unlink()  # as if it had been killed in its last evaluation
    go_on(run)
    assert load_checkpoint(run).step == 1 and (run / "summary.json").is_file()
    go_on(run, f"runner.max_steps={steps + 1}")
    assert load_checkpoint(run).step == 2


@pytest.mark.long
def test_an_earlier_end_is_no_end_of_what_follows(
    log_path: Path, whole: Path, monkeypatch: pytest.MonkeyPatch
):
    run = start(log_path, "longer", "runner.max_epochs=2")
    with monkeypatch.context() as patch:
        patch.setattr(train_stages, "keep", Failing(train_stages.keep, [4]))  # all updates are done
        with pytest.raises(WorkerError):
            go_on(run, "runner.max_epochs=4")
    assert load_checkpoint(run).step == 4 and not (run / "summary.json").exists()
    go_on(run, "runner.max_epochs=4")
    assert_same(run, whole)


@pytest.mark.long
def test_an_evaluation_does_not_go_on_with_a_run(log_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(train_stages, "update_policy", Failing(train_stages.update_policy, [1]))
    with pytest.raises(WorkerError):
        start(log_path, "job")
    before = (log_path / "job" / "config.yaml").read_text()
    start(log_path, "job", "runner.auto_resume=true", "runner.only_eval=true", "sft.enabled=false")
    assert (log_path / "job" / "config.yaml").read_text() == before
    assert (log_path / "job-2" / "eval" / "eval.parquet").is_file()


@pytest.mark.long
def test_what_stays_on_disk(log_path: Path):
    run = start(log_path, "tidy", "runner.keep_last=1", "runner.keep_best=true")
    success = {line["step"]: line["env/success_once"] for line in numbers(run)
               if "env/success_once" in line}  # fmt: skip
    best = max(success, key=lambda step: success[step])
    assert (run / "checkpoints" / "best").read_text().strip() == f"step_{int(best or 0):06d}"
    kept = {path.name for path in (run / "checkpoints").glob("step_*")}
    assert kept == {f"step_{int(best or 0):06d}", "step_000004"}


@pytest.mark.long
def test_a_full_disk(log_path: Path, whole: Path):
    """A limit on the size of files stands in for it. The run ends with one error, earlier
    checkpoints are whole, and it goes on when there is space."""
    size = (load_checkpoint(whole).path / "learner.safetensors").stat().st_size
    code = (
        "import resource, signal, sys; from rlcore.cli.main import main; "
        "from rlcore.training import train; make = train.write_checkpoint\n"
        "def full(session, update):\n"
        "    if update == 3:\n"
        "        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        f"        resource.setrlimit(resource.RLIMIT_FSIZE, ({size // 2}, {size // 2}))\n"
        "    make(session, update)\n"
        "train.write_checkpoint = full; sys.exit(main(sys.argv[1:]))"
    )
    words = ["train", *COMMON, f"runner.logger.log_path={log_path}",
             "runner.logger.experiment_name=full"]  # fmt: skip
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True)
    assert done.returncode == CheckpointError.exit_code, done.stderr
    assert "Traceback" not in done.stderr
    assert "can't write" in done.stderr and "step_000003" in done.stderr
    run = log_path / "full"
    assert load_checkpoint(run).step == 2
    assert not list((run / "checkpoints").glob(".partial*"))
    go_on(run)
    assert_same(run, whole)
