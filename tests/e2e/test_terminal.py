"""What a run's terminal does to it: its reader leaves, it is closed, or it never mattered."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from internals import load_checkpoint
from resume_cases import REINFORCE

LONGEST = 400.0  # seconds; for a machine that is busy with other things
QUICK = [
    "runner.val_before_train=false",
    "env.eval.trials_per_task=1",
    "runner.logger.experiment_name=run",
]


def start(
    log_path: Path, *overrides: str, stdout: int = subprocess.PIPE, **options: object
) -> subprocess.Popen[bytes]:
    words = [*REINFORCE, *QUICK, f"runner.logger.log_path={log_path}", *overrides]
    command = [sys.executable, "-m", "rlcore.cli.main", "train", *words]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    return subprocess.Popen(command, stdout=stdout, env=environment, **options)  # type: ignore[call-overload, no-any-return]


def until(condition: Callable[[], bool], run: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + LONGEST
    while not condition():
        assert run.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.long
def test_a_run_whose_reader_left_goes_on_to_the_end(log_path: Path):
    """`train 2>&1 | head -1`: both streams are gone after the first line."""
    run = start(log_path, stderr=subprocess.STDOUT)
    assert run.stdout is not None
    run.stdout.readline()
    run.stdout.close()
    assert run.wait(LONGEST) == 0
    assert (log_path / "run" / "summary.json").is_file()
    assert load_checkpoint(log_path / "run").step == 4


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="no SIGHUP there")
def test_a_closed_terminal_ends_a_run_with_a_checkpoint(log_path: Path):
    """SIGHUP, and no terminal to write to any more."""
    pty = pytest.importorskip("pty")
    main, side = pty.openpty()
    run = start(log_path, "runner.max_epochs=100000", stdout=side, stderr=side)
    os.close(side)
    os.set_blocking(main, False)
    metrics = log_path / "run" / "metrics.jsonl"

    def logged() -> bool:
        # a terminal takes what it is shown; a run waits for one that does not
        with contextlib.suppress(BlockingIOError):
            os.read(main, 2**16)
        return metrics.is_file() and metrics.stat().st_size > 0

    until(logged, run)
    os.close(main)
    run.send_signal(signal.SIGHUP)
    assert run.wait(LONGEST) == 128 + signal.SIGHUP
    lines = metrics.read_bytes().count(b"\n")
    assert load_checkpoint(log_path / "run").step == lines >= 1


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="no SIGHUP there")
def test_nohup_is_heeded(log_path: Path):
    def ignore() -> None:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does

    run = start(log_path, stdout=subprocess.DEVNULL, preexec_fn=ignore)
    until(lambda: (log_path / "run" / "metrics.jsonl").is_file(), run)
    run.send_signal(signal.SIGHUP)
    assert run.wait(LONGEST) == 0
    assert (log_path / "run" / "summary.json").is_file()
