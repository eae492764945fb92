"""Normalisation statistics, worked by hand, and faults in their files."""

from __future__ import annotations

import json

import numpy as np
import pytest
from rlcore_prismatic import statistics

from rlcore.contracts.errors import CheckpointError

PART = {"q01": [-1, 0], "q99": [3, 0.5], "min": [-2, -1], "max": [4, 1], "mask": [True, False]}
FOUND = {"robot": {"action": PART}}


def bounds(kind="bounds_q99", epsilon=0.0, found=FOUND, size=2):
    return statistics.bounds(
        found, "robot", "action", kind=kind, size=size, epsilon=epsilon, origin="here"
    )


def test_scaling_by_hand():
    values = np.array([[-1.0, 0.3], [3.0, -5.0], [2.0, 0.0]])
    # entry 0: 2 (x + 1) / 4 - 1; entry 1 is not scaled
    expected = [[-1.0, 0.3], [1.0, -5.0], [0.5, 0.0]]
    np.testing.assert_allclose(bounds().normalize(values), expected)
    np.testing.assert_allclose(bounds().unnormalize(np.array(expected)), values)
    # by least and greatest value: 2 (2 + 2) / 6 - 1 = 1/3
    assert bounds("bounds").normalize(values)[2, 0] == pytest.approx(1 / 3)
    # with epsilon e: (0 + 1) / 2 (4 + e) - 1
    assert bounds(epsilon=0.5).unnormalize(np.zeros(2))[0] == 1.25


def test_fitting_by_hand():
    values = np.stack([np.arange(101.0), np.full(101, 2.0)], axis=1)
    fitted = statistics.fit(values)
    assert fitted["min"] == [0.0, 1.99] and fitted["max"] == [100.0, 2.01]  # kept apart
    np.testing.assert_allclose(fitted["q01"], [1.0, 1.99])
    np.testing.assert_allclose(fitted["q99"], [99.0, 2.01])
    assert fitted["mean"] == [50.0, 2.0] and fitted["mask"] == [True, True]


def test_files_round_trip_and_the_later_one_wins(tmp_path):
    content = {"norm_stats": {"robot": {"action": {}}, "base": {"action": {}}}}
    (tmp_path / "config.json").write_text(json.dumps(content))
    statistics.write(tmp_path, FOUND)
    assert statistics.read(tmp_path) == {**FOUND, "base": {"action": {}}}


@pytest.mark.parametrize(
    ("key", "chosen"), [("a", "a"), ("libero", "libero_no_noops"), (None, None)]
)
def test_choosing(tmp_path, key, chosen):
    known = {"a": {}, "libero_no_noops": {}}
    if chosen is None:
        with pytest.raises(CheckpointError, match=r"unnorm_key is null; .* for a, libero_no_noops"):
            statistics.choose(known, key, tmp_path)
        assert statistics.choose({"only": {}}, None, tmp_path) == "only"
        statistics.write(tmp_path, {"a": {}})  # of the data set that it was fine-tuned on
        assert statistics.choose(known, None, tmp_path) == "a"
    else:
        assert statistics.choose(known, key, tmp_path) == chosen


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"q01": None}, "has no list 'q01'"),
        ({"q99": [1, "x"]}, "has no list 'q99'"),
        ({"q99": [1, float("nan")]}, "must be finite"),
        ({"q01": [0, 0, 0]}, "must have 2 entries, got 3, 2 and 2"),
        ({"mask": [True]}, "must have 2 entries, got 2, 2 and 1"),
        ({"q99": [-3, 0]}, "lower bounds above upper ones"),
    ],
)
def test_faults(change, match):
    with pytest.raises(CheckpointError, match=match):
        bounds(found={"robot": {"action": {**PART, **change}}})


def test_absent_parts():
    with pytest.raises(CheckpointError, match="'robot' has no statistics of 'action'"):
        bounds(found={"robot": {}})
