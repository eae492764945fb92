"""Supervised training until success on validation starts stops rising, ended and gone on with."""

from __future__ import annotations

import json
import shutil
import signal
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from internals import HookError, PolicyOptimizer, seal, supervised_phase
from resume_cases import go_on, play, plugged_in
from safetensors.torch import load_file, save_file
from sameness import assert_same, numbers

from rlcore import hookimpl
from rlcore.cli.main import main
from rlcore.contracts.errors import CheckpointError, ConfigError
from rlcore.runs.tables import read_results

WORDS = (
    *("env=toy", "model=toy", "algorithm=ppo", "cluster.backend=local", "cluster.torch_threads=1"),
    *("env.train.total_num_envs=8", "env.eval.total_num_envs=20", "env.eval.trials_per_task=2"),
    *("rollout.forward_batch=4", "actor.micro_batch_size=16", "actor.global_batch_size=32"),
    *("sft.enabled=true", "sft.until=plateau", "sft.max_steps=8", "sft.lr_warmup_steps=2"),
    *(
        "sft.max_doublings=2",
        "collect.episodes_per_task=2",
        "runner.max_epochs=1",
        "algorithm.update_epoch=1",
    ),
)
"""A run of three rounds: whether success still rises or not, two doublings are the most."""
STEPS = (8, 16, 32)


def start(log_path: Path, *overrides: str) -> Path:
    return play(log_path, "run", *WORDS, *overrides)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return start(tmp_path_factory.mktemp("runs"), "sft.control=demonstrations")


def summary_of(run: Path) -> dict[str, Any]:
    return dict(json.loads((run / "summary.json").read_text()))


def successes(run: Path, steps: int) -> list[bool]:
    rows = read_results(run / f"eval/plateau/steps_{steps:06d}.parquet")
    return [row.success for row in rows]


def test_each_round_doubles_the_steps_and_plays_the_same_validation_starts(whole: Path) -> None:
    found = summary_of(whole)["plateau"]
    assert [played["steps"] for played in found["rounds"]] == list(STEPS)
    for played in found["rounds"]:
        success = successes(whole, played["steps"])
        assert (played["n"], played["rate"]) == (200, sum(success) / 200)
        assert played["lo"] <= played["rate"] <= played["hi"]
    rows = [read_results(whole / f"eval/plateau/steps_{steps:06d}.parquet") for steps in STEPS]
    starts = [{(row.task, row.trial) for row in each} for each in rows]
    assert starts[0] == starts[1] == starts[2] and len(starts[0]) == 200
    assert {trial for _, trial in starts[0]} == {*range(2000, 2050)}  # not those held out
    assert {row.sampling for row in rows[0]} == {"deterministic"}
    logged = {line["step"]: line for line in numbers(whole) if "eval/plateau/success_once" in line}
    assert {step: line["eval/plateau/success_once"] for step, line in logged.items()} == {
        played["steps"]: played["rate"] for played in found["rounds"]
    }


def test_the_start_has_the_weights_of_the_first_of_the_best_rounds(whole: Path) -> None:
    rates = [sum(successes(whole, steps)) for steps in STEPS]
    kept = STEPS[rates.index(max(rates))]
    assert summary_of(whole)["plateau"]["kept_steps"] == kept
    assert not (whole / "sft_rounds").exists()


def test_the_first_round_is_the_training_of_before(tmp_path: Path, whole: Path) -> None:
    """The same losses as without the key, to the bit."""
    plain = start(tmp_path, "sft.until=max_steps")
    first, rounds = (json.loads((run / "sft.json").read_text()) for run in (plain, whole))
    assert rounds["train_loss"][: STEPS[0]] == first["train_loss"]
    assert [step for step, _ in rounds["train_loss"]] == list(range(STEPS[-1]))
    assert rounds["steps"] == STEPS[-1] and "plateau" not in summary_of(plain)


def test_the_control_goes_on_with_batches_of_no_round(whole: Path) -> None:
    history = json.loads((whole / "control.json").read_text())
    assert history["train_loss"][0][0] == STEPS[-1]


class Rounds:
    """A plugin that notes which rounds play, and fails after the evaluation of one of them."""

    def __init__(self, failing: int | None = None) -> None:
        self._failing = failing
        self.played: list[int] = []

    @hookimpl
    def rlcore_after_eval(self, label: str) -> None:
        name, _, steps = label.partition("/steps_")
        if name != "plateau":
            return
        self.played.append(int(steps))
        if int(steps) == self._failing:
            raise OSError("the disk is full")


def stopped_after(log_path: Path, steps: int) -> Path:
    """Start a run that a plugin ends after the evaluation of a round; return its folder."""
    with plugged_in(Rounds(steps)), pytest.raises(HookError):
        start(log_path, "sft.control=demonstrations")
    return log_path / "run"


@pytest.mark.quick(2)
@pytest.mark.parametrize("steps", STEPS)
def test_a_run_that_ends_after_any_round_goes_on_to_the_same_bits(
    whole: Path, tmp_path: Path, steps: int
) -> None:
    """Kills at every write are those of the shape `plateau` of `crash_points.py`."""
    run = stopped_after(tmp_path, steps)
    again = Rounds()
    with plugged_in(again):
        go_on(run)
    assert again.played == [later for later in STEPS if later > steps]
    assert_same(whole, run)
    same_start(whole, run)


def test_supervised_training_alone_goes_on_from_its_last_round(tmp_path: Path) -> None:
    places = {name: [*WORDS, f"runner.logger.log_path={tmp_path / name}"] for name in ("a", "b")}
    named = "runner.logger.experiment_name=run"
    assert main(["sft", *places["a"], named]) == 0
    with plugged_in(Rounds(STEPS[0])):
        assert main(["sft", *places["b"], named]) != 0
    again = Rounds()
    with plugged_in(again):
        assert main(["resume", str(tmp_path / "b/run")]) == 0
    assert again.played == [*STEPS[1:]]
    same_start(tmp_path / "a/run", tmp_path / "b/run")


def same_start(one: Path, other: Path) -> None:
    ours, theirs = (load_file(run / "sft/model.safetensors") for run in (one, other))
    assert all(ours[name].equal(theirs[name]) for name in ours) and ours.keys() == theirs.keys()
    assert summary_of(one)["plateau"] == summary_of(other)["plateau"]
    assert not (other / "sft_rounds").exists()


@pytest.mark.quick(2)
@pytest.mark.parametrize("step", [2, 7, 12, 15])
def test_a_signal_within_a_round_goes_on_to_the_same_bits(
    whole: Path, tmp_path: Path, step: int
) -> None:
    """Also in the last step of a round, 7 and 15, whose training then is complete and saved."""
    made = count()
    advance = PolicyOptimizer.step

    def signalling(optimizer: Any) -> Any:
        if next(made) == step:
            signal.raise_signal(signal.SIGINT)
        return advance(optimizer)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(supervised_phase, "PART_SECONDS", 0.0)  # each call makes one step
        patched.setattr(PolicyOptimizer, "step", signalling)
        with pytest.raises(KeyboardInterrupt):
            start(tmp_path, "sft.control=demonstrations")
    run = tmp_path / "run"
    assert (run / f"sft_steps/step_{step + 1:08d}").is_dir()
    go_on(run)
    assert_same(whole, run)
    same_start(whole, run)


def test_a_state_of_another_round_is_not_continued(tmp_path: Path, whole: Path) -> None:
    """Without its rounds a run repeats all its supervised training."""
    run = stopped_after(tmp_path, STEPS[0])
    state = run / "sft_steps/step_00000012"
    shutil.copytree(run / "sft_rounds/000008/policy", state / "policy")
    counters = {
        "state": {"first": STEPS[0], "optimizer": {}, "history": {}},
        "tensors": [],
        "files": ["learner.safetensors"],
    }
    (state / "learner.json").write_text(json.dumps(counters))
    save_file({}, state / "learner.safetensors")
    seal(state, 0)
    shutil.rmtree(run / "sft_rounds")
    go_on(run)
    same_start(whole, run)
    assert not (run / "sft_steps").exists()


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that ended before its second round."""
    return stopped_after(tmp_path_factory.mktemp("interrupted"), STEPS[0])


@pytest.mark.parametrize(
    ("word", "named"),
    [
        ("sft.lr=1e-4", ("sft.lr", "0.0001", "0.001")),
        ("sft.until=max_steps", ("sft.until", "max_steps", "plateau")),
        ("sft.max_steps=4", ("sft.max_steps", "8")),
    ],
)
def test_rounds_are_not_continued_with_other_settings(
    interrupted: Path, tmp_path: Path, refused: Any, word: str, named: tuple[str, ...]
) -> None:
    run = shutil.copytree(interrupted, tmp_path / "run")
    with refused(ConfigError, *named, "sft_rounds", text=False):
        go_on(run, word)


def test_rounds_are_not_compared_under_another_protocol(
    interrupted: Path, tmp_path: Path, refused: Any
) -> None:
    run = shutil.copytree(interrupted, tmp_path / "run")
    with refused(CheckpointError, "000008", "env.eval", "sft_rounds", text=False):
        go_on(run, "env.*.max_episode_steps=10")


def test_a_damaged_round_is_refused(interrupted: Path, tmp_path: Path, refused: Any) -> None:
    run = shutil.copytree(interrupted, tmp_path / "run")
    weights = run / "sft_rounds/000008/policy/model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"x")
    with refused(CheckpointError, "model.safetensors", "damaged", text=False):
        go_on(run)


def test_the_bound_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`rlcore sft` alone knows the key too; the toy learns more in 64 steps than in 2."""
    words = [word for word in WORDS if not word.startswith("sft.max_steps")]
    names = [f"runner.logger.log_path={tmp_path}", "runner.logger.experiment_name=run"]
    assert main(["sft", *words, "sft.max_steps=16", *names]) == 0
    said = capsys.readouterr().out
    lines = [line for line in said.splitlines() if line.startswith("sft: ") and "solve" in line]
    assert [line.split()[1] for line in lines] == ["16", "32", "64"]
    found = summary_of(tmp_path / "run")["plateau"]
    assert ("warning: sft.max_doublings=2" in said) is not found["reached"]
    assert f"the starting policy is the one after {found['kept_steps']} steps" in said
