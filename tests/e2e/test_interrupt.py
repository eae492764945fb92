"""Ctrl-C, as a user presses it: one line, exit code 130, nothing left behind, and it goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from internals import load_checkpoint
from processes import wait_until_gone

from rlcore.cli.main import main

UP_SECONDS = 400
DOWN_SECONDS = 200  # Ray's agents look after a killed raylet about once a minute


@pytest.mark.parametrize(
    "stop",
    [
        signal.SIGINT,
        pytest.param(signal.SIGTERM, marks=pytest.mark.long),
        pytest.param(signal.SIGKILL, marks=pytest.mark.long),
    ],
)
def test_no_process_outlives_an_interrupted_run(log_path: Path, stop: signal.Signals):
    words = [
        *("train", "env=toy", "model=toy", "algorithm=ppo", "runner.max_epochs=100000"),
        *("runner.val_before_train=false", "runner.save_interval=1"),
        "cluster.component_placement={env: all:0, rollout: all:0, actor: all:0}",
    ]
    command = [
        sys.executable,
        "-m",
        "rlcore.cli.main",
        *words,
        f"runner.logger.log_path={log_path}",
        "runner.logger.experiment_name=run",
    ]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
        start_new_session=True,
    ) as run:
        assert run.stdout is not None
        seen = _read_until(run, "update 3/")
        children = psutil.Process(run.pid).children(recursive=True)
        assert len(children) > 3, seen  # raylet, store, workers
        run.send_signal(stop)
        rest, _ = run.communicate(timeout=DOWN_SECONDS)
    killed = stop == signal.SIGKILL
    assert run.returncode == (-stop if killed else 128 + stop), seen + rest
    assert "Traceback" not in rest, rest
    wait_until_gone(children, DOWN_SECONDS)
    done = load_checkpoint(log_path / "run").step
    assert main(["resume", str(log_path / "run"), f"runner.max_epochs={done + 1}",
                 "cluster.backend=local"]) == 0  # fmt: skip
    assert load_checkpoint(log_path / "run").step == done + 1


def _read_until(run: subprocess.Popen[str], text: str) -> str:
    assert run.stdout is not None
    deadline, seen = time.monotonic() + UP_SECONDS, ""
    for line in run.stdout:
        seen += line
        if text in line:
            return seen
        assert time.monotonic() < deadline, seen
    raise AssertionError(f"the run ended early:\n{seen}")
