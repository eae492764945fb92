"""The figures of benchmarks/scaling.py."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))

from parts import divided, transfers
from parts.queues import Carried


def test_the_rate_of_a_core_follows_from_its_cpu_time() -> None:
    # 1000 messages in 0.5 CPU-seconds, however long they took
    assert Carried(pairs=2, messages=1000, wall=4.0, cpu=0.5).rate == 2000.0


def test_transports_are_compared_with_the_first() -> None:
    seconds = {"object_store": 0.5, "broadcast": 1.0}
    head, row = transfers.table([transfers.Transfer(64 * 2**20, seconds)])
    assert head.split()[-2:] == list(seconds)
    assert row.split() == ["64.0", "MiB", "0.500", "s", "1.00", "x", "1.000", "s", "2.00", "x"]


def test_updates_are_compared_with_one_process() -> None:
    rows = divided.table(
        {"one process": divided.Updates(2.0, 0.1), "two, copies": divided.Updates(3.0, 0.2)}
    )
    assert rows[1].split()[-6:] == ["2.000", "s", "1.00", "x", "0.100", "s"]
    assert "1.50 x" in rows[2] and "0.200 s" in rows[2]


@pytest.mark.exhaustive
def test_the_benchmark_runs_from_end_to_end(figures_of) -> None:
    figures = figures_of("scaling", "--quick")
    assert figures["queues"][0]["messages"] == 40  # 20 observations and their answers
    assert set(figures["sync"][0]["seconds"]) == set(transfers.TRANSPORTS)
    assert set(figures["divided"]) == set(divided.LAYOUTS)
    assert set(figures["workers"]) == {"1", "2"}
