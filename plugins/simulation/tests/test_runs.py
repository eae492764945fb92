"""A whole run on Ray whose two envs simulate under two other interpreters, and are struck."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from rlcore_tools.report.sameness import untimed
from safetensors.numpy import load_file

from rlcore.results.tables import read_results
from rlcore.track.checkpoint import load_checkpoint
from rlcore.track.trackers import read_metrics

WORDS = [
    *("env=line", "model=toy", "algorithm=ppo", "runner.max_epochs=2"),
    *("collect.episodes_per_task=2", "sft.enabled=true", "sft.max_steps=5"),
    *("actor.micro_batch_size=8", "actor.global_batch_size=16", "cluster.torch_threads=1"),
    *("runner.save_interval=1", "env.eval.trials_per_task=2"),
]
SIDES = [
    f"env.{side}.{words}"
    for side in ("train", "eval")
    for words in ("total_num_envs=4", "num_processes=2", "extra_states=0", "max_episode_steps=20")
]
STRIKES = ("9", "19")  # SIGKILL and SIGSTOP
HUNG = "env.train.simulator_timeout=10"  # waited for once, without a CPU


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., Path]:
    """`run(NAME, *WORDS)` trains in a process where the tiny simulator is an installed plugin, and
    gives the run's folder."""
    site = tmp_path / "site"
    info = site / "line-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: line\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[rlcore.plugins]\nline = line_plugin\n")
    paths = [str(site), str(Path(__file__).parent)]

    def train(name: str, *words: str) -> Path:
        log = [f"runner.logger.log_path={tmp_path}", f"runner.logger.experiment_name={name}"]
        command = [sys.executable, "-m", "rlcore.cli.main", "train", *WORDS, *SIDES, *log, *words]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        (tmp_path / name / "said.txt").write_text(done.stdout)
        return tmp_path / name

    return train


def test_two_envs_under_two_interpreters_do_as_at_home_though_they_are_struck(
    run: Callable[..., Path], twin_venv: Path, numpy1: str, tmp_path: Path
) -> None:
    """Simulators that train run beside numpy 1, those that evaluate beside this one. Of those that
    train one is killed and one stopped; nothing of it is seen in the results."""
    strikes = tmp_path / "strikes"
    strikes.mkdir()
    for signal in STRIKES:
        (strikes / signal).touch()
    home = run("home", "cluster.backend=local")
    away = run(
        "away",
        *("cluster.backend=ray", f"env.train.python={numpy1}", f"env.eval.python={twin_venv}"),
        *(f"env.train.strikes={strikes}", HUNG),
    )
    assert not list(strikes.iterdir())
    said = (away / "said.txt").read_text()
    assert "killed by signal 9" in said and "did not answer within 10 s" in said, said
    assert untimed(read_metrics(away / "metrics.jsonl")) == untimed(
        read_metrics(home / "metrics.jsonl")
    )
    for file in sorted(home.glob("eval/*.parquet")):
        assert list(read_results(file)) == list(read_results(away / "eval" / file.name))
    require_equal_weights(home, away)
    found = json.loads((away / "manifest.json").read_text())["versions"]
    assert found["numpy (env.train.python)"] == "1.26.4"
    assert found["numpy (env.eval.python)"] == np.__version__


def require_equal_weights(one: Path, other: Path) -> None:
    ours, theirs = (load_checkpoint(run).path for run in (one, other))
    files = sorted(file.relative_to(ours) for file in ours.rglob("*.safetensors"))
    assert files
    for file in files:
        here, there = load_file(ours / file), load_file(theirs / file)
        for name, array in here.items():
            np.testing.assert_array_equal(array, there[name])
