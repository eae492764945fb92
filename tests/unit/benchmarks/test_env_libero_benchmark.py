"""The benchmark runs from end to end, on LIBERO's own assets."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

pytest.importorskip("rlcore_env_libero")
libero_cases = pytest.importorskip("libero_cases")


def test_the_two_play_by_turns(monkeypatch):
    """Three rounds; each begins every second one."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import env_libero

    order: list[str] = []
    sides = {
        name: env_libero.Side(
            partial(order.append, f"{name} starts"), partial(play, order, name, steps)
        )
        for name, steps in (("ours", 8), ("peer", 4))
    }
    # a round takes half a second of CPU time, on either side
    monkeypatch.setattr(env_libero, "cpu_seconds", lambda: len(order) / 4)
    speeds = env_libero.in_turn(sides, 3)
    plays = [line for line in order if line.endswith("plays")]
    assert plays == [f"{name} plays" for name in ("ours", "peer", "peer", "ours", "ours", "peer")]
    assert order[::2] == [line.replace("plays", "starts") for line in plays]
    assert [speeds[name].per_cpu_second for name in ("ours", "peer")] == [16, 8]


def play(order: list[str], name: str, steps: int) -> int:
    order.append(f"{name} plays")
    return steps


@libero_cases.needs_assets
@pytest.mark.long
def test_both_are_measured_in_one_run(figures_of):
    figures = figures_of("env_libero", "--quick")
    ours, peer = figures["ours"], figures["peer"]
    assert figures["ratio"] == pytest.approx(ours["per_second"] / peer["per_second"])
    assert figures["cpu_ratio"] == pytest.approx(ours["per_cpu_second"] / peer["per_cpu_second"])
    # ours compiles nothing at a reset, and draws no frame while it waits
    assert 0 < figures["parts"]["ours"]["start"] < figures["parts"]["LIBERO's"]["start"] / 2
    assert figures["cpu_ratio"] > 1
