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


def test_statistics_are_chosen_by_key(tmp_path, refused):
    known = {"a": {}, "libero_no_noops": {}}
    assert statistics.choose(known, "a", tmp_path) == "a"
    assert statistics.choose(known, "libero", tmp_path) == "libero_no_noops"
    with refused(CheckpointError, "unnorm_key", "a, libero_no_noops"):
        statistics.choose(known, None, tmp_path)
    assert statistics.choose({"only": {}}, None, tmp_path) == "only"
    statistics.write(tmp_path, {"a": {}})  # of the data set that it was fine-tuned on
    assert statistics.choose(known, None, tmp_path) == "a"


@pytest.mark.parametrize(
    ("key", "value", "word"),
    [
        ("q01", None, "'q01'"),
        ("q99", [1, "x"], "'q99'"),
        ("q99", [1, float("nan")], "finite"),
        ("q01", [0, 0, 0], "3, 2 and 2"),
        ("mask", [True], "2, 2 and 1"),
        ("q99", [-3, 0], "action"),
    ],
)
def test_faulty_statistics_are_refused(refused, key, value, word):
    with refused(CheckpointError, word):
        bounds(found={"robot": {"action": {**PART, key: value}}})


def test_absent_statistics_are_refused(refused):
    with refused(CheckpointError, "'robot'", "'action'"):
        bounds(found={"robot": {}})
