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
    wanted = {"in order, PyAV": 200.0, "in order, reader": 190.0,
              "drawn, PyAV": 100.0, "drawn, reader": 110.0}  # fmt: skip
    _, order, drawn = decode.table({"AV1, g 2": wanted})
    assert order.split()[-3:] == ["200", "190", "0.95"] and drawn.split()[-1] == "1.10"
    told = decode.told({"all": {"steps": 100, "seconds": 8.0, "waited": 0.2}})
    assert told[0].endswith("100 steps in 8.0 s, of which it waited 0.20 s (2.5%)")


@pytest.mark.long
def test_what_training_waits(tmp_path: Path) -> None:
    found = decode.waiting(tmp_path)
    assert all(one["steps"] == 100 and one["seconds"] > one["waited"] for one in found.values())
