"""The benchmark runs from end to end, and its bound is the formula of docs/benchmarks.md."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

pytest.importorskip("rlcore_env_metaworld")
pytest.importorskip("rlcore_model_openpi")


@pytest.mark.long
def test_rollout_benchmark_measures_all_three(tmp_path):
    out = tmp_path / "rollout.json"
    run = subprocess.run(
        [sys.executable, ROOT / "benchmarks/rollout.py", "--quick", "--json", out],
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    figures = json.loads(out.read_text())
    # 4 envs, one epoch, 20 steps in chunks of 10; random weights don't solve a task so soon
    work = figures["rollout"]["work"]
    assert sum(task["env_steps"] for task in work) == 80
    assert sum(task["episodes"] for task in work) == 4
    assert sum(task["decisions"] for task in work) == 8
    speeds = figures["env_steps_per_second"]
    costs = figures["components"]
    alone = 8 * min(costs["rows"].values())
    for task, cost in zip(work, costs["tasks"], strict=True):
        alone += task["episodes"] * (cost["reset"] + 20 * cost["step"] + 2 * cost["frame"])
    assert speeds["bound"] == pytest.approx(80 * figures["machine"]["cores"] / alone)
    assert figures["ratios"]["ours/bound"] == pytest.approx(speeds["ours"] / speeds["bound"])
    assert 0 < figures["ratios"]["ours/bound"] < 1
    cpu = figures["rollout"]["cpu"]
    assert {"driver", "ray", "channel", "env worker", "policy worker", "simulators"} <= set(cpu)
    assert len(figures["rollout"]["simulators"]) == min(4, figures["machine"]["cores"])
    assert cpu["simulators"] > 0
