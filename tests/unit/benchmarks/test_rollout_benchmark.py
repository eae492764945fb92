"""The benchmark runs from end to end, and its bound is the formula of docs/benchmarks.md."""

from __future__ import annotations

import pytest

pytest.importorskip("rlcore_env_metaworld")
pytest.importorskip("rlcore_model_openpi")


@pytest.mark.long
def test_rollout_benchmark_measures_all_three(figures_of):
    figures = figures_of("rollout", "--quick")
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
