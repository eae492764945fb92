"""Workers that die or hang during a training on Ray: what is recovered, and how the rest ends."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from itertools import product
from pathlib import Path
from typing import Any

import psutil
import pytest
import ray
from internals import load_checkpoint
from processes import wait_until_gone
from resume_cases import COMMON, go_on, play
from rlcore_ray.cluster import check_address
from rlcore_ray.group import RayGroup
from sameness import assert_same

from rlcore.contracts.errors import StuckError, WorkerError

ONE_EACH = "cluster.component_placement={env: all:0, rollout: all:0, actor: all:0}"
APART = "cluster.component_placement={env: 0, rollout: 0, actor: 1}"

pytestmark = pytest.mark.usefixtures("two_cores", "ray_cluster")


def start(log_path: Path, name: str, *overrides: str) -> Path:
    return play(log_path, name, *COMMON, "cluster.backend=ray", ONE_EACH, *overrides)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, ray_cluster: None) -> Path:
    return start(tmp_path_factory.mktemp("runs"), "whole")


def kill_before(monkeypatch, role: str, talk: str, number: int) -> None:
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


def test_an_env_worker_that_dies_in_a_rollout_is_survived(log_path: Path, whole: Path, capsys):
    """It dies after so many steps, again and again; the run comes to the very same end."""
    run = start(log_path, "dying", "env.train.fail_at=50", "env.train.fail_how=die")
    assert "recovered: env worker 0 died" in capsys.readouterr().out
    assert_same(run, whole)
    assert_no_worker_is_left()


@pytest.mark.long
def test_an_env_worker_that_always_dies_ends_the_run(log_path: Path, refused):
    with refused(WorkerError, "env worker 0", text=False):
        start(
            log_path,
            "doomed",
            "sft.enabled=false",
            *("env.train.fail_at=2", "env.train.fail_how=die"),
            *("env.eval.fail_at=2", "env.eval.fail_how=die"),
        )
    assert_no_worker_is_left()


@pytest.mark.long
@pytest.mark.parametrize(
    ("placement", "role", "talk"),
    [
        (ONE_EACH, "rollout+actor", "converse"),
        (APART, "rollout", "converse"),
        (APART, "actor", "publish"),
    ],
)
def test_a_policy_that_dies_ends_the_run_and_it_goes_on(
    log_path: Path,
    whole: Path,
    placement: str,
    role: str,
    talk: str,
    refused,
    monkeypatch,
):
    with monkeypatch.context() as patched:
        kill_before(patched, role, talk, 4)  # 1: start or evaluation ... 4: an update was made
        with refused(WorkerError, f"{role} worker 0", text=False):
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
    assert "12 s" in caught.value.message
    assert "signal.pause()" in caught.value.message.partition("env worker 0, last heard of")[2]
    assert_no_worker_is_left()


def assert_no_worker_is_left() -> None:
    """Check that no process of a worker or a channel is left below this one."""
    deadline = time.monotonic() + 100
    while alive := [
        child for child in psutil.Process().children(recursive=True) if is_worker(child)
    ]:
        assert time.monotonic() < deadline, alive
        time.sleep(0.2)


def is_worker(process: psutil.Process) -> bool:
    """Return whether a process is a worker that Ray started."""
    try:
        return re.match(r"ray::\w+Worker", " ".join(process.cmdline())) is not None
    except psutil.NoSuchProcess:
        return False


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "how"),
    list(product(("raylet", "gcs_server", "ray::ChannelActor"), (signal.SIGKILL, signal.SIGSTOP))),
)
def test_a_dead_or_stopped_process_of_ray_ends_the_run_with_one_error(
    log_path: Path, name: str, how: signal.Signals
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
        next(one for one in family if title_of(one).startswith(name)).send_signal(how)
        out, err = run.communicate(timeout=400)
    assert run.returncode == WorkerError.exit_code, err
    (error,) = [line for line in err.splitlines() if "error:" in line]
    assert name.removeprefix("ray::") in error or (how is signal.SIGSTOP and "20 s" in error)
    assert "raylet)" not in out and "Traceback" not in out + err
    wait_until_gone(family)
    done = load_checkpoint(log_path / "struck").step
    assert done >= 1
    go_on(log_path / "struck", "cluster.backend=local", f"runner.max_epochs={done + 1}")


def title_of(process: psutil.Process) -> str:
    """Return the title that Ray gives a worker, or the name of the program."""
    title = " ".join(process.cmdline())
    return title if title.startswith("ray::") else process.name()


def test_an_address_without_an_answer_is_refused_at_once(refused):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))  # taken, but nobody listens
        address = f"127.0.0.1:{other.getsockname()[1]}"
        with refused(WorkerError, f"address={address}", text=False):
            check_address(address, 60.0)
        other.listen()  # takes the connection, and says nothing
        with refused(WorkerError, f"address={address}", "0.1 s", text=False):
            check_address(address, 0.1)
