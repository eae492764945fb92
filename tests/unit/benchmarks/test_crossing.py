"""The figures of benchmarks/crossing.py."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))

import crossing


def test_both_ways_are_measured_and_compared() -> None:
    figures = crossing.crossing(rows=2, chunk=3, repeats=5)
    assert list(figures) == ["JSON and arrays", "pickle"]
    assert all(0 < value < 1e6 for value in figures.values())  # less than a second


def test_the_share_is_of_a_chunk_under_our_own_interpreter() -> None:
    figures = {"JSON and arrays": 50.0, "pickle": 40.0, "MetaWorld chunk, own interpreter": 2e4}
    *_, ratio, share = crossing.table(figures)
    assert ratio.split()[-1] == "1.25" and share.split()[-2:] == ["0.25", "%"]  # 50 of 20,000
