"""Whole runs whose actor processes divide the parameters: trained, gone on with by the same and by
other numbers of processes, whole and divided, and looked at with every other command.

`pytest -m long -n0 tests/e2e/test_sharded_runs.py`. What one update gives is compared in
tests/unit/learner/test_sharded.py, without a run around it.
"""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
from internals import load_checkpoint
from rlcore_ray.group import RayGroup
from safetensors.torch import load_file
from sameness import assert_same, numbers

from rlcore.cli.main import main
from rlcore.config.recipes import read_mapping
from rlcore.contracts.errors import CheckpointError

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(1800),
    pytest.mark.usefixtures("ray_cluster"),
]
TOY = [
    "train", "env=toy", "model=toy", "algorithm=ppo", "algorithm.kl_beta=0.01", "sft.enabled=true",
    "sft.max_steps=6", "collect.episodes_per_task=2", "env.train.total_num_envs=4",
    "env.eval.total_num_envs=4", "env.eval.trials_per_task=1", "rollout.forward_batch=4",
    "actor.micro_batch_size=2", "actor.global_batch_size=12", "runner.save_interval=1",
    "cluster.torch_threads=1", "runner.logger.logger_backends=[]",
    "actor.optim.lr=1e-3", "actor.optim.adam_eps=1e-4",
]  # fmt: skip
SHARDED = "actor.fsdp_config.sharding_strategy=full_shard"
WHOLE = "actor.fsdp_config.sharding_strategy=no_shard"
TWO = "cluster.component_placement={env: 0, rollout: 0, actor: 0-1}"
THREE = "cluster.component_placement={env: 0, rollout: 0, actor: '0:0-1,1:2'}"
ONE = "cluster.component_placement={env: 0, rollout: 0, actor: 0}"
LOCAL = "cluster.backend=local"


def train(place: Path, name: str, *words: str, updates: int) -> Path:
    """A new run."""
    where = [f"runner.logger.log_path={place}", f"runner.logger.experiment_name={name}"]
    assert main([*TOY, f"runner.max_epochs={updates}", *where, *words]) == 0
    return place / name


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def uninterrupted(place: Path) -> Path:
    """Three updates of two processes that divide the parameters."""
    return train(place, "uninterrupted", SHARDED, TWO, updates=3)


@pytest.fixture(scope="module")
def begun(place: Path) -> Path:
    """The first two of them."""
    return train(place, "begun", SHARDED, TWO, updates=2)


@pytest.fixture(scope="module")
def begun_whole(place: Path) -> Path:
    """The first two of one process that holds all."""
    return train(place, "whole", WHOLE, ONE, LOCAL, updates=2)


def copied(run: Path, place: Path) -> Path:
    """The run in another folder, to go on with there."""
    shutil.copytree(run, place / run.name)
    return place / run.name


def assert_near(run: Path, other: Path) -> None:
    """The third update came out as another number of processes makes it. The rollout before it was
    played with weights that were read from one checkpoint, so it is the same to the bit; weights
    then differ by the rounding of sums, far less than an update moves them."""
    ours, theirs = third_update(run), third_update(other)
    played = [name for name in ours if name.startswith(("rollout/", "env/"))]
    assert len(played) > 5
    assert {n: ours[n] for n in played} == {n: theirs[n] for n in played}
    before, mine = weights(run, 2), weights(run, 3)
    assert apart(mine, before) > 1e-3
    assert apart(mine, weights(other, 3)) < 1e-5


def third_update(run: Path) -> dict[str, float | None]:
    """Its metrics."""
    lines = [line for line in numbers(run) if "train/actor/lr" in line]
    return lines[2]


def weights(run: Path, step: int) -> dict[str, torch.Tensor]:
    return load_file(run / "checkpoints" / f"step_{step:06d}" / "actor" / "model.safetensors")


def apart(mine: dict[str, torch.Tensor], its: dict[str, torch.Tensor]) -> float:
    """The greatest difference of a weight."""
    return max(float((weight - its[name]).abs().max()) for name, weight in mine.items())


def test_it_divided_the_learner(uninterrupted: Path):
    kept = sorted(file.name for file in load_checkpoint(uninterrupted).path.glob("learner*"))
    assert kept == [
        "learner-00001-of-00002.safetensors", "learner-00002-of-00002.safetensors", "learner.json",
    ]  # fmt: skip


def test_the_same_processes_go_on_to_the_same_bits(
    uninterrupted: Path, begun: Path, tmp_path: Path
):
    run = copied(begun, tmp_path)
    assert main(["resume", str(run), "runner.max_epochs=3"]) == 0
    assert_same(run, uninterrupted)


def test_resume_dir_goes_on_to_the_same_bits(uninterrupted: Path, begun: Path, tmp_path: Path):
    run = copied(begun, tmp_path)
    words = [SHARDED, TWO, "runner.max_epochs=3", f"runner.resume_dir={run}"]
    assert main([*TOY, *words]) == 0
    assert_same(run, uninterrupted)


@pytest.mark.parametrize(
    "words",
    [[THREE], [WHOLE, TWO], [WHOLE, ONE, LOCAL], ["actor.fsdp_config.cpu_offload=true"]],
    ids=["divided by three", "two copies", "one process", "in host memory"],
)
def test_other_processes_go_on(
    uninterrupted: Path, begun: Path, tmp_path: Path, words: Sequence[str]
):
    run = copied(begun, tmp_path)
    assert main(["resume", str(run), "runner.max_epochs=3", *words]) == 0
    assert_near(run, uninterrupted)


def test_a_whole_run_goes_on_divided_and_whole_again(begun_whole: Path, tmp_path: Path):
    one, two = (copied(begun_whole, tmp_path / name) for name in ("one", "two"))
    assert main(["resume", str(one), "runner.max_epochs=3"]) == 0
    ray = "cluster.backend=ray"
    assert main(["resume", str(two), "runner.max_epochs=3", SHARDED, TWO, ray]) == 0
    assert_near(two, one)
    assert main(["resume", str(two), "runner.max_epochs=4", WHOLE, ONE, LOCAL]) == 0
    assert load_checkpoint(two).step == 4


def test_every_other_command_takes_its_checkpoint(
    uninterrupted: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    run = str(copied(uninterrupted, tmp_path))
    assert main(["report", run]) == 0
    assert main(["eval", run, "--verify"]) == 0, capsys.readouterr()
    assert main(["export", run, str(tmp_path / "exported")]) == 0
    assert load_file(tmp_path / "exported" / "model.safetensors")
    assert main(["eval", run, "env.eval.trials_per_task=2"]) == 0


@pytest.mark.parametrize(
    "words",
    [["model=pi0_tiny", "algorithm=ppo"],
     ["model=smolvla_tiny", "algorithm=ppo"],
     ["model=openvla_oft_tiny", "algorithm=grpo", "algorithm.group_size=2",
      "actor.model.is_lora=true", "algorithm.kl_beta=0.01"]],
    ids=["pi0", "SmolVLA", "OpenVLA-OFT with adapters"],
)  # fmt: skip
def test_models_of_ours_are_trained_saved_and_gone_on_with(tmp_path: Path, words: Sequence[str]):
    """What acts after an update has the weights that were divided: an evaluation of the checkpoint
    gives the episodes that the run ended with."""
    plain = [word for word in TOY if not word.startswith(("model=", "algorithm", "sft", "collect"))]
    where = [f"runner.logger.log_path={tmp_path}", "runner.logger.experiment_name=ours"]
    where += ["runner.max_epochs=1", "runner.val_before_train=false"]
    assert main([*plain, *words, *where, SHARDED, TWO]) == 0
    run = str(tmp_path / "ours")
    assert main(["eval", run, "--verify"]) == 0
    assert main(["resume", run, "runner.max_epochs=2", WHOLE, ONE, LOCAL]) == 0


def test_a_process_killed_within_a_checkpoint_costs_that_checkpoint(
    uninterrupted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any
):
    """One of the two has written its file when the other one, stopped before its own, is killed. A
    run that was told to goes on by itself, from the checkpoint before, and comes to the very end of
    one that nothing happened to."""
    asking, folder, struck = RayGroup._ask, tmp_path / "killed" / "checkpoints", []

    def strike(self: RayGroup, component: str, method: str, *rest: Any) -> list[Any]:
        if method == "save_learner" and (folder / "step_000001").is_dir() and not struck:
            one, other = sorted(actors())
            struck.append(other)
            os.kill(other, signal.SIGSTOP)
            threading.Thread(target=kill_when_written, args=(folder, one, other)).start()
        return asking(self, component, method, *rest)

    monkeypatch.setattr(RayGroup, "_ask", strike)
    run = train(tmp_path, "killed", SHARDED, TWO, "runner.auto_resume=true", updates=3)
    output = capfd.readouterr().out
    assert struck and "going on from update 1 (runner.auto_resume)" in output, output
    assert sorted(path.name for path in folder.iterdir() if path.is_dir()) == [
        "step_000001", "step_000002", "step_000003",
    ]  # fmt: skip
    assert_same(run, uninterrupted)


def actors() -> list[int]:
    """Process ids of those that learn."""
    children = psutil.Process().children(recursive=True)
    return [one.pid for one in children if " ".join(one.cmdline()).startswith("ray::ActorWorker")]


def kill_when_written(folder: Path, writes: int, dies: int) -> None:
    """Kill a stopped process once the other one's file of the second checkpoint is there."""
    deadline = time.monotonic() + 120
    while not list(folder.glob(".partial-*/learner-*")) and time.monotonic() < deadline:
        time.sleep(0.05)
    os.kill(dies, signal.SIGKILL)


@pytest.mark.parametrize("damage", ["missing", "truncated", "of another run", "not all named"])
def test_a_damaged_part_is_one_error_before_a_worker_starts(
    uninterrupted: Path, begun: Path, tmp_path: Path, damage: str, capsys: Any
):
    run = copied(begun, tmp_path)
    at = load_checkpoint(run).path
    file = at / "learner-00002-of-00002.safetensors"
    if damage == "missing":
        file.unlink()
    elif damage == "truncated":
        file.write_bytes(file.read_bytes()[:-8])
    elif damage == "of another run":
        shutil.copy(load_checkpoint(uninterrupted).path / file.name, file)
    else:
        shutil.copy(at / "learner-00001-of-00002.safetensors", file)
    with pytest.raises(CheckpointError) as refused:
        load_checkpoint(run)
    assert file.name in refused.value.message
    assert main(["resume", str(run), "runner.max_epochs=3"]) == CheckpointError.exit_code
    stderr = capsys.readouterr().err
    assert stderr.count("error:") == 1 and file.name in stderr and "step_000001" in stderr
    assert read_mapping(run / "config.yaml")["runner"]["max_epochs"] == 2
