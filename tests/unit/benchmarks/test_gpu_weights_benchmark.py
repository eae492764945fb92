"""The figures of benchmarks/gpu_weights.py."""

from __future__ import annotations

import pytest


@pytest.mark.long
def test_both_ways_that_need_no_gpu_carry_the_weights(figures_of) -> None:
    words = ("--device", "cpu", "--mib", "0.5", "70", "--repeats", "1")  # less, more than a bucket
    figures = figures_of("gpu_weights", *words)
    assert figures["bytes"] == [524288, 73400320]
    assert set(figures["seconds"]) == {"object_store", "broadcast"}
    for small, large in figures["seconds"].values():
        assert 0 < small < large
