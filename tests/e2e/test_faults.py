"""Workers that die or hang during a training on Ray: what is recovered, and how the rest ends."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
import ray
from internals import assemble, compose, load_checkpoint, train
from resume_cases import COMMON, go_on
from rlcore_ray.group import RayGroup
from sameness import assert_same

from rlcore.contracts.errors import StuckError, WorkerError

ONE_EACH = "cluster.component_placement={env: all:0, rollout: all:0, actor: all:0}"
APART = "cluster.component_placement={env: 0, rollout: 0, actor: 1}"

pytestmark = pytest.mark.usefixtures("two_cores", "ray_cluster")


def start(log_path: Path, name: str, *overrides: str) -> Path:
    names = [f"runner.logger.log_path={log_path}", f"runner.logger.experiment_name={name}"]
    train(assemble(compose([*COMMON, "cluster.backend=ray", ONE_EACH, *names, *overrides])))
    return log_path / name


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, ray_cluster: None) -> Path:
    return start(tmp_path_factory.mktemp("runs"), "whole")


def kill_before(monkeypatch: pytest.MonkeyPatch, role: str, talk: str, number: int) -> None:
    """Kill worker 0 of a role while the `number`-th conversation with that talk begins."""
    talking, seen = RayGroup._talk, [0]

    def strike(self: RayGroup, parts: Any, on_count: Any = None) -> list[Any]:
        seen[0] += any(part.talk == talk for part in parts)
        if seen[0] == number and any(part.talk == talk for part in parts):
            seen[0] += 1
            worker = self._workers[role][0]
            if role == "env":
                os.kill(ray.get(worker.call.remote("process_id", {})), signal.SIGKILL)
            else:
                ray.kill(worker)
        return talking(self, parts, on_count)

    monkeypatch.setattr(RayGroup, "_talk", strike)


def test_an_env_worker_that_dies_in_a_rollout_is_survived(
    log_path: Path, whole: Path, capsys: pytest.CaptureFixture[str]
):
    """It dies after so many steps, again and again; the run comes to the very same end."""
    run = start(log_path, "dying", "env.train.fail_at=50", "env.train.fail_how=die")
    said = capsys.readouterr().out
    assert said.count("recovered: env worker 0 died") >= 1, said
    assert_same(run, whole)
    assert_no_worker_is_left()


@pytest.mark.long
def test_an_env_worker_that_always_dies_ends_the_run(log_path: Path):
    with pytest.raises(WorkerError, match="env worker 0 died while it was asked to converse"):
        start(
            log_path,
            "doomed",
            "sft.enabled=false",
            *("env.train.fail_at=2", "env.train.fail_how=die"),
            *("env.eval.fail_at=2", "env.eval.fail_how=die"),
        )
    assert_no_worker_is_left()


@pytest.mark.parametrize(
    ("placement", "role", "talk"),
    [
        pytest.param(ONE_EACH, "rollout+actor", "converse", marks=pytest.mark.long),
        pytest.param(APART, "rollout", "converse", marks=pytest.mark.long),
        pytest.param(APART, "actor", "publish", marks=pytest.mark.long),
    ],
)
def test_a_policy_that_dies_ends_the_run_and_it_goes_on(
    log_path: Path,
    whole: Path,
    placement: str,
    role: str,
    talk: str,
    monkeypatch: pytest.MonkeyPatch,
):
    with monkeypatch.context() as patched:
        kill_before(patched, role, talk, 4)  # 1: start or evaluation ... 4: an update was made
        with pytest.raises(WorkerError, match=rf"{role.replace('+', '.')} worker 0 died"):
            start(log_path, "killed", placement)
    run = log_path / "killed"
    assert_no_worker_is_left()
    assert load_checkpoint(run).step < 4
    go_on(run)
    assert_same(run, whole)


@pytest.mark.long
def test_a_hanging_worker_is_named_with_its_stack(log_path: Path):
    with pytest.raises(StuckError) as caught:
        start(
            log_path,
            "hanging",
            "sft.enabled=false",
            "runner.val_before_train=false",
            "cluster.timeouts.env=12",
            *("env.train.fail_at=8", "env.train.fail_how=hang"),
        )
    message = caught.value.message
    assert "waited 12 s for stage 0 of env worker 0" in message
    assert "env worker 0, last heard of" in message
    assert "signal.pause()" in message.split("env worker 0, last heard of")[1]
    assert_no_worker_is_left()


def assert_no_worker_is_left() -> None:
    deadline = time.monotonic() + 100
    while alive := [child for child in psutil.Process().children(recursive=True) if busy(child)]:
        assert time.monotonic() < deadline, alive
        time.sleep(0.2)


def busy(process: psutil.Process) -> bool:
    try:
        return re.match(r"ray::\w+Worker", " ".join(process.cmdline())) is not None
    except psutil.NoSuchProcess:
        return False


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "how", "said"),
    [
        ("raylet", signal.SIGKILL, r"Ray's raylet \(pid \d+\) died"),
        ("raylet", signal.SIGSTOP, r"Ray's raylet \(pid \d+\) is stopped \(SIGSTOP\?\) for 20 s"),
        ("gcs_server", signal.SIGKILL, r"Ray's gcs_server \(pid \d+\) died"),
        ("gcs_server", signal.SIGSTOP, r"Ray's gcs_server \(pid \d+\) is stopped"),
        ("ray::ChannelActor", signal.SIGKILL, r"the queues between workers \(ChannelActor\) died"),
        ("ray::ChannelActor", signal.SIGSTOP, r"the queues between workers .* for 20 s"),
    ],
)
def test_ray_itself_gone_or_stopped_ends_the_run_with_one_error(
    log_path: Path, name: str, how: signal.Signals, said: str
):
    """A process and a cluster of its own; nothing of it is left, and the run goes on."""
    names = [f"runner.logger.log_path={log_path}", "runner.logger.experiment_name=struck"]
    more = ["sft.enabled=false", "runner.val_before_train=false", "runner.max_epochs=100000"]
    words = [*COMMON, *more, "cluster.backend=ray", ONE_EACH, "cluster.timeouts.ray=20", *names]
    command = [sys.executable, "-m", "rlcore.cli.main", "train", *words]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as run:
        assert run.stdout is not None
        for line in run.stdout:
            if line.startswith("update 2/"):
                break
        family = psutil.Process(run.pid).children(recursive=True)
        next(one for one in family if called(one).startswith(name)).send_signal(how)
        out, err = run.communicate(timeout=400)
    assert run.returncode == WorkerError.exit_code, err
    assert err.count("error:") == 1 and re.search(f"^error: {said}", err, re.MULTILINE), err
    assert "raylet)" not in out and "Traceback" not in out + err
    deadline = time.monotonic() + 100
    while alive := [one for one in family if lives(one)]:
        assert time.monotonic() < deadline, alive
        time.sleep(0.2)
    done = load_checkpoint(log_path / "struck").step
    assert done >= 1
    go_on(log_path / "struck", "cluster.backend=local", f"runner.max_epochs={done + 1}")


def lives(process: psutil.Process) -> bool:
    """Whether it still runs; how soon the system forgets one that has ended is its own affair."""
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def called(process: psutil.Process) -> str:
    """What Ray titles a worker, or the name of the program."""
    title = " ".join(process.cmdline())
    return title if title.startswith("ray::") else process.name()


def test_an_address_where_nobody_answers_is_refused_at_once():
    from rlcore_ray.cluster import check_address

    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))  # taken, but nobody listens
        address = f"127.0.0.1:{other.getsockname()[1]}"
        with pytest.raises(WorkerError, match=rf"address={address} \(.*refused"):
            check_address(address, 60.0)
        other.listen()  # takes the connection, and says nothing
        with pytest.raises(WorkerError, match=rf"address={address} within 0.1 s"):
            check_address(address, 0.1)
