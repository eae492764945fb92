"""A real sweep in which a job diverges, one is killed, and then the sweep itself.

`pytest -m long -n0 plugins/sweeps/tests/test_kills.py`."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from rlcore_sweeps.job_record import JobRecord

RLCORE = [sys.executable, "-m", "rlcore.cli.main"]
TOY = [
    *("train", "env=toy", "model=toy", "algorithm=ppo", "runner.max_epochs=3"),
    *("cluster.backend=local", "cluster.component_placement={env: 0, rollout: 0, actor: 0}"),
    *("env.train.total_num_envs=2", "env.eval.total_num_envs=2", "env.eval.trials_per_task=2"),
    *("actor.global_batch_size=4", "actor.micro_batch_size=4", "runner.save_interval=1"),
]
JOBS = "actor.optim.lr=1e-5,2e-5,1e6,3e-5,4e-5,5e-5"  # the third diverges


def wait(driver: subprocess.Popen[bytes], condition: Callable[[], bool]) -> None:
    """As long as the sweep goes on."""
    while not condition():
        assert driver.poll() is None
        time.sleep(0.1)


@pytest.mark.long
def test_resume_ends_with_all_results_and_makes_none_twice(log_path: Path):
    sweep = log_path / "run"
    logger = (f"runner.logger.log_path={log_path}", "runner.logger.experiment_name=run")
    driver = subprocess.Popen([*RLCORE, *TOY, *logger, JOBS, "-m"], start_new_session=True)
    first, second = sweep / "0-lr-1e-05", sweep / "1-lr-2e-05"
    wait(driver, (second / "checkpoints/step_000001").is_dir)
    struck = JobRecord.load(sweep, 1)
    assert struck is not None
    os.kill(struck.process[0], signal.SIGKILL)
    wait(driver, lambda: states(sweep)[:3] == ["done", "failed", "failed"])
    wait(driver, lambda: "running" in states(sweep))
    driver.kill()
    driver.wait()
    left = [record.process[0] for record in JobRecord.load_all(sweep) if record.state == "running"]
    kept = (first / "summary.json").stat()
    assert len(left) > 0 and "done" not in states(sweep)[4:]
    subprocess.run([*RLCORE, "resume", str(sweep)])
    for number in left:  # they have ended with their sweep
        with contextlib.suppress(psutil.NoSuchProcess):
            assert psutil.Process(number).status() == psutil.STATUS_ZOMBIE
    assert states(sweep) == ["done", "done", "failed", "done", "done", "done"]
    assert "hold NaN or infinity" in JobRecord.load_all(sweep)[2].error
    runs = sorted(sweep.glob("[0-9]*"))
    assert len(runs) == 6
    assert [(run / "summary.json").is_file() for run in runs] == [n != 2 for n in range(6)]
    for run in runs[:2] + runs[3:]:  # no update made twice: those that were kept were gone on with
        lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        steps = [line["step"] for line in lines if "train/actor/total_loss" in line]
        assert steps == sorted(set(steps)), run
    assert (first / "summary.json").stat() == kept
    assert len(list((first / "attempts").iterdir())) == 1  # not made twice
    assert len(list((second / "attempts").iterdir())) == 2  # gone on with


def states(sweep: Path) -> list[str]:
    """Of the jobs, by number."""
    return [record.state for record in JobRecord.load_all(sweep)]
