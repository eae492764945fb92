"""Runs that are killed (SIGKILL) again and again, gone on with, and compared with undisturbed ones.

A run is struck in its beginning, while a checkpoint is written, in the middle of an update and in
its last evaluation, each time by `kill -9` from outside; what is left ends equal in every tensor,
metric and episode. EXPO plays the toy env, DSRL and PPO play MetaWorld in simulator processes.
Points within a millisecond of each other, without simulators: :mod:`crash_points`.

`pytest -m long -n0 tests/e2e/test_kills.py`."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from processes import wait_until_gone
from sameness import assert_same
from test_acting_runs import EXPO
from test_metaworld_pi0 import SMALL_QUICKSTART
from test_steering_runs import DSRL

LOCAL = ["cluster.backend=local", "cluster.component_placement={env,rollout,actor: '0:0'}"]
MOST = 600.0  # seconds until a moment comes
METAWORLD = [
    *(word for word in SMALL_QUICKSTART if not word.startswith("runner.max_epochs")),
    "runner.max_epochs=3",
    "runner.save_interval=1",
    "cluster.torch_threads=1",
    "env.eval.video_cfg.save_video=false",
]
RUNS = {"expo": EXPO, "dsrl": DSRL, "metaworld": METAWORLD}

Moment = Callable[[Path], bool]


def begun(run: Path) -> bool:
    return (run / "config.yaml").is_file()


def writing_a_checkpoint(run: Path) -> bool:
    return any((run / "checkpoints").glob(".partial*"))


def after(step: int, seconds: float) -> Moment:
    """So long after a checkpoint: in the rollout, the update or the evaluation that follows."""

    def come(run: Path) -> bool:
        if not (run / f"checkpoints/step_{step:06d}").is_dir():
            return False
        time.sleep(seconds)
        return True

    return come


MOMENTS: list[Moment] = [begun, writing_a_checkpoint, after(1, 0.3), after(2, 0.0), after(3, 0.1)]


def command(*words: str) -> subprocess.Popen[bytes]:
    line = [sys.executable, "-m", "rlcore.cli.main", *words]
    return subprocess.Popen(line, stdout=subprocess.DEVNULL)


def struck(words: list[str], run: Path, moment: Moment) -> bool:
    """Play until that moment, and kill; whether it came before the end of the run."""
    process = command(*words)
    deadline = time.monotonic() + MOST
    while not moment(run):
        if process.poll() is not None:
            assert process.returncode == 0
            return False
        assert time.monotonic() < deadline
        time.sleep(0.002)
    family = [] if process.poll() is not None else psutil.Process(process.pid).children(True)
    process.kill()
    process.wait()
    wait_until_gone(family)
    return True


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", RUNS)
def test_a_run_that_is_killed_again_and_again_ends_as_the_undisturbed_one(
    name: str, log_path: Path
):
    place = [*RUNS[name], *LOCAL, f"runner.logger.log_path={log_path}"]
    assert command("train", *place, "runner.logger.experiment_name=whole").wait(MOST) == 0
    run = log_path / "killed"
    words = ["train", *place, "runner.logger.experiment_name=killed"]
    kills = 0
    for moment in MOMENTS:
        kills += struck(words, run, moment)
        words = ["resume", str(run)]
    assert kills >= 3
    if not (run / "summary.json").is_file():
        assert command(*words).wait(MOST) == 0
    assert_same(log_path / "whole", run)
    assert not list(run.rglob(".partial*"))
