"""What goes wrong in a worker is told once, by rlcore, and Ray adds nothing of its own."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from rlcore.contracts.errors import WorkerError

SMALL = (
    "env=toy",
    "model=toy",
    "algorithm=ppo",
    "runner.max_epochs=4",
    "runner.val_before_train=false",
    "cluster.component_placement={env: all:0, rollout: all:0, actor: all:0}",
)


def run(log_path: Path, *overrides: str) -> subprocess.CompletedProcess[str]:
    """A process of its own: what Ray prints depends on what was set before it was imported."""
    command = [sys.executable, "-m", "rlcore.cli.main", "train", *SMALL]
    names = [f"runner.logger.log_path={log_path}"]
    return subprocess.run([*command, *names, *overrides], capture_output=True, text=True)


@pytest.mark.long
def test_of_a_death_that_is_survived(log_path: Path):
    done = run(log_path, "env.train.fail_at=50", "env.train.fail_how=die")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("recovered: env worker 0 died") >= 1, done.stdout
    assert "raylet" not in done.stdout + done.stderr
    assert all(line.startswith("warning: ") for line in done.stderr.splitlines()), done.stderr


@pytest.mark.long
def test_of_an_exception(log_path: Path):
    done = run(log_path, "env.train.fail_at=8", "env.train.fail_how=raise")
    assert done.returncode == WorkerError.exit_code
    assert done.stderr.count("error:") == 1
    first = next(line for line in done.stderr.splitlines() if line.startswith("error:"))
    assert "env worker 0" in first
    assert re.search(r"told to fail at step 8 \(\S+/toy_env\.py:\d+\)$", first)
    assert done.stderr.count("told to fail at step 8") == 2  # there, and where the traceback ends
    assert done.stderr.count("Traceback (most recent call last):\n  File ") == 1
    assert 'toy_env.py", line' in done.stderr  # the worker's own traceback
    assert "ray::" not in done.stderr and "\x1b" not in done.stderr
    assert "raylet" not in done.stdout + done.stderr
