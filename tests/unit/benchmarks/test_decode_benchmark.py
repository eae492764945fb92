"""The figures of benchmarks/decode.py."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))

import decode


def test_reader_and_pyav_decode_the_same_video(tmp_path: Path) -> None:
    options = Namespace(frames=12, size=64)
    rates = decode.rates_of(decode._encoded(tmp_path, "AV1, g 2", options), 12, repeats=1)
    assert list(rates) == ["in order, PyAV", "in order, reader", "drawn, PyAV", "drawn, reader"]
    assert all(rate > 1 for rate in rates.values())
    wanted = dict(zip(rates, (200.0, 190.0, 100.0, 110.0), strict=True))
    _, order, drawn = decode.table({"AV1, g 2": wanted})
    assert order.split()[-3:] == ["200", "190", "0.95"] and drawn.split()[-1] == "1.10"
    (line,) = decode.told({"all": {"steps": 100, "seconds": 8.0, "waited": 0.2}})
    assert all(figure in line for figure in ("100 steps", "8.0 s", "0.20 s", "2.5%"))


@pytest.mark.long
def test_training_waits_for_a_part_of_its_time(tmp_path: Path) -> None:
    for figures in decode.waiting(tmp_path).values():
        assert figures["steps"] == 100 and figures["seconds"] > figures["waited"]
