"""Envs that other packages register, trained on for an update: Fetch, and dm_control by shimmy."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long
PACKAGES = (
    *("gymnasium-robotics>=1.4,<1.5", "pettingzoo", "imageio"),
    *("shimmy>=2", "dm-control==1.0.28", "dm-env", "dm-tree", "labmaze"),
)
"""A later dm_control needs a later MuJoCo than the other envs here."""
SMALL = (
    *("model=toy", "algorithm=ppo", "cluster.backend=local", "runner.max_epochs=1"),
    *("cluster.component_placement={'env,rollout,actor': 0}", "env.train.total_num_envs=2"),
    *("env.eval.total_num_envs=2", "env.eval.trials_per_task=2", "env.*.num_processes=1"),
    *("env.*.image_size=32", "env.*.max_episode_steps=20", "actor.global_batch_size=8"),
    *("actor.micro_batch_size=8", "runner.logger.experiment_name=run"),
)
ENVS = {
    "FetchReach-v4": ("env.train.states=[observation,desired_goal]",),
    "dm_control/reacher-easy-v0": ("env.train.success=reward:1",),
}


@pytest.fixture(scope="module")
def packages(tmp_path_factory) -> Path:
    """A folder with them; what they need besides is here."""
    folder = tmp_path_factory.mktemp("packages")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder)]
    done = subprocess.run([*pip, *PACKAGES], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"they can't be installed here: {done.stderr.strip()[-200:]}")
    return folder


@pytest.mark.parametrize("ident", ENVS)
def test_it_is_trained_on(ident, packages, tmp_path):
    words = ["env=gymnasium", f"env.train.id={ident}", *ENVS[ident], *SMALL]
    done = subprocess.run(
        [sys.executable, "-m", "rlcore.cli.main", "train", *words],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(packages)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    summary = json.loads((tmp_path / "logs/run/summary.json").read_text())
    assert summary["success_after"]["n"] == 2
