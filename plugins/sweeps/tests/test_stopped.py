"""A job's process that is stopped (SIGSTOP): the sweep ends in time, names it and leaves none."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from rlcore_sweeps import job
from rlcore_sweeps.job import RunningJob, wait_for, with_final_state
from rlcore_sweeps.job_record import JobRecord

from rlcore.cli.main import main

JOB_PROCESS = (str(Path(__file__).parent / "quick_job_process.py"),)
WORDS = ("env=toy", "model=toy", "algorithm=ppo", "cluster.backend=local", "runner.max_epochs=1")


@pytest.fixture
def record(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[], JobRecord]:
    monkeypatch.setattr(job, "JOB_PROCESS", JOB_PROCESS)
    monkeypatch.setattr(job, "STOPPED_TIMEOUT_S", 1.0)
    monkeypatch.setattr(job, "POLL_S", 0.2)
    (tmp_path / ".jobs").mkdir()
    return lambda: JobRecord(
        0, ("runner.seed=60",), "runner.seed=60", str(tmp_path / "run"), "running"
    )


def words(folder: Path) -> tuple[str, ...]:
    place = (f"runner.logger.log_path={folder}", "runner.logger.experiment_name=run")
    return ("train", *place, "runner.seed=60")


def runs(number: int) -> bool:
    try:
        return psutil.Process(number).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_a_stopped_job_is_killed_and_named(record, tmp_path):
    since = time.monotonic()
    ended = wait_for(RunningJob.start(record(), tmp_path, words(tmp_path)))
    assert time.monotonic() - since < 30
    assert ended.state == "failed" and not runs(ended.process[0])
    assert f"pid {ended.process[0]}" in ended.error and "SIGSTOP" in ended.error
    assert JobRecord.load(tmp_path, 0).error == ended.error


def test_a_job_that_goes_on_in_time_is_left_alone(record, tmp_path, monkeypatch):
    monkeypatch.setattr(job, "STOPPED_TIMEOUT_S", 60.0)
    running = RunningJob.start(record(), tmp_path, words(tmp_path))
    process = psutil.Process(running.process.pid)
    deadline = time.monotonic() + 30
    while process.status() != psutil.STATUS_STOPPED or running.stopped < 0.4:
        assert running.going() and time.monotonic() < deadline
        time.sleep(0.1)
    process.resume()
    running.wait()
    assert running.stopped < 5 and running.ended().state == "done"


def test_a_job_of_a_killed_sweep_is_ended_by_the_next(record, tmp_path):
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    process = psutil.Process(child.pid)
    process.suspend()
    left = replace(record(), process=(child.pid, process.create_time()))
    since = time.monotonic()
    with_final_state(left)
    assert time.monotonic() - since < 30 and not runs(child.pid)
    child.wait(10)


@pytest.mark.long
def test_a_sweep_goes_on_with_the_others(record, log_path, capsys):
    place = (f"runner.logger.log_path={log_path}", "runner.logger.experiment_name=run")
    assert main(["train", *WORDS, *place, "-m", "runner.seed=60,1", "sweep.parallel=1"]) == 1
    error = capsys.readouterr().err
    assert "SIGSTOP" in error and "Traceback" not in error
    records = JobRecord.load_all(log_path / "run")
    assert [record.state for record in records] == ["failed", "done"]
    assert not any(runs(record.process[0]) for record in records)
    assert main(["resume", str(log_path / "run")]) == 0
    assert {record.state for record in JobRecord.load_all(log_path / "run")} == {"done"}
