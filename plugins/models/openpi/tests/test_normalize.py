"""Both normalisation formulas worked by hand, fitting, and the statistics file."""

from __future__ import annotations

import json

import numpy as np
import pytest
from rlcore_flow.normalize import QUANTILE, Z_SCORE, Formula, Normalizer, Stats
from rlcore_model_openpi.normalize import find_stats, read_stats, write_stats

from rlcore.contracts.errors import CheckpointError

STATS = Stats(
    mean=np.array([1.0, -2.0]),
    std=np.array([2.0, 0.5]),
    q01=np.array([0.0, -4.0]),
    q99=np.array([4.0, 0.0]),
)
X = np.array([[3.0, -1.0]], dtype=np.float32)


def test_z_score_by_hand():
    normalizer = Normalizer(STATS, STATS, Z_SCORE, Z_SCORE)
    # (3 - 1) / 2 = 1, (-1 + 2) / 0.5 = 2, up to the 1e-6 in the denominator
    np.testing.assert_allclose(normalizer.normalize_state(X), [[1.0, 2.0]], atol=1e-5)
    np.testing.assert_allclose(normalizer.normalize_actions(X), [[1.0, 2.0]], atol=1e-5)
    back = normalizer.unnormalize_actions(np.array([[1.0, 2.0]], dtype=np.float32))
    np.testing.assert_allclose(back, X, atol=1e-5)


def test_the_epsilon_is_in_the_denominator():
    tiny = Stats(mean=np.zeros(1), std=np.array([1e-6]))
    # 1e-6 / (1e-6 + 1e-6) = 0.5
    value = Normalizer(tiny, tiny, Z_SCORE, Z_SCORE).normalize_state(np.array([1e-6]))
    np.testing.assert_allclose(value, [0.5], rtol=1e-6)


def test_quantile_by_hand():
    normalizer = Normalizer(STATS, STATS, QUANTILE, QUANTILE)
    # 2 (3 - 0) / 4 - 1 = 0.5, 2 (-1 + 4) / 4 - 1 = 0.5
    np.testing.assert_allclose(normalizer.normalize_state(X), [[0.5, 0.5]], atol=1e-5)
    # (0.5 + 1) / 2 * 4 + 0 = 3, (0.5 + 1) / 2 * 4 - 4 = -1
    back = normalizer.unnormalize_actions(np.full((1, 2), 0.5, dtype=np.float32))
    np.testing.assert_allclose(back, X, atol=1e-5)


def test_padded_entries():
    padded = np.array([[1.0, 2.0, 7.0]], dtype=np.float32)
    # z-score pads with mean 0, std 1: 7 * (1 + 1e-6); quantile passes them on
    z_score = Normalizer(STATS, STATS, Z_SCORE, Z_SCORE).unnormalize_actions(padded)
    np.testing.assert_allclose(z_score, [[3.0, -1.0, 7.0]], atol=2e-5)
    quantile = Normalizer(STATS, STATS, QUANTILE, QUANTILE).unnormalize_actions(padded)
    # (1 + 1) / 2 * 4 = 4, (2 + 1) / 2 * 4 - 4 = 2
    np.testing.assert_allclose(quantile, [[4.0, 2.0, 7.0]], atol=1e-5)


def test_statistics_longer_than_the_data_are_cut():
    value = Normalizer(STATS, STATS, Z_SCORE, Z_SCORE).normalize_state(np.array([[3.0]]))
    np.testing.assert_allclose(value, [[1.0]], atol=1e-5)


def test_fit_by_hand():
    # entry 0: 0..100; quantiles by linear interpolation 1 and 99; mean 50,
    # std sqrt((101^2 - 1) / 12) = sqrt(850). Entry 1 never moves: std 0.01, quantiles 5 +- 0.01.
    values = np.stack([np.arange(101.0), np.full(101, 5.0)], axis=1)
    stats = Stats.fit(values)
    np.testing.assert_allclose(stats.mean, [50.0, 5.0])
    np.testing.assert_allclose(stats.std, [850**0.5, 0.01])
    np.testing.assert_allclose(stats.q01, [1.0, 4.99])
    np.testing.assert_allclose(stats.q99, [99.0, 5.01])


def test_round_trip_is_exact(tmp_path):
    values = np.random.default_rng(0).normal(size=(50, 3))
    stats = Stats.fit(values)
    path = tmp_path / "assets" / "robot" / "norm_stats.json"
    write_stats(path, Normalizer(stats, stats, QUANTILE, QUANTILE))
    again = read_stats(path, QUANTILE, QUANTILE, state_dim=3, action_dim=3)
    for field in ("mean", "std", "q01", "q99"):
        np.testing.assert_array_equal(vars(again.state)[field], vars(stats)[field])
        np.testing.assert_array_equal(vars(again.actions)[field], vars(stats)[field])


def entry(size: int, **changes: object) -> dict[str, object]:
    return {"mean": [0.0] * size, "std": [1.0] * size, "q01": None, "q99": None, **changes}


FOUR = entry(4)
WIDE = entry(5, q01=[0.0] * 5, q99=[0.0] * 4 + [0.1])
"""An entry that was measured, and not left by padding: its bounds are apart."""


@pytest.mark.parametrize(
    ("content", "quantile", "words"),
    [
        ("not json", False, []),
        ([1], False, ["norm_stats"]),
        ({"state": FOUR}, False, ["'actions'"]),
        ({"state": FOUR, "actions": entry(3)}, False, ["'actions'", "3 entries"]),
        ({"state": entry(14), "actions": FOUR}, False, ["'state'", "14 entries"]),
        ({"state": FOUR, "actions": WIDE}, False, ["'actions'", "5 entries"]),
        ({"state": WIDE}, True, ["'state'", "5 entries"]),
        ({"state": FOUR, "actions": FOUR}, True, ["state.q01"]),
        ({"state": entry(4, std=[1.0]), "actions": FOUR}, False, ["'state'"]),
        ({"state": entry(4, mean="abc"), "actions": FOUR}, False, ["state.mean"]),
        ({"state": entry(4, mean=[float("nan")] * 4), "actions": FOUR}, False, ["finite"]),
    ],
)
def test_files_of_other_content_are_refused(tmp_path, refused, content, quantile, words):
    path = tmp_path / "norm_stats.json"
    if isinstance(content, dict):
        content = {"norm_stats": content}
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    with refused(CheckpointError, path, *words):
        read_stats(path, Formula(quantile), Formula(quantile), state_dim=4, action_dim=4)


@pytest.mark.parametrize("quantile", [False, True])
def test_entries_that_padding_left(tmp_path, quantile):
    """As in openpi's own statistics of LIBERO, whose data it padded to 32 before measuring it: the
    bounds of its histogram are 1e-10 about 0."""
    padded = {
        "mean": [1.0, 2.0, 0.0],
        "std": [1.0, 1.0, 0.0],
        "q01": [0.0, 0.0, -1e-10],
        "q99": [1.0, 1.0, 1e-10],
    }
    path = tmp_path / "norm_stats.json"
    path.write_text(json.dumps({"norm_stats": {"state": padded, "actions": padded}}))
    formula = Formula(quantile)
    found = read_stats(path, formula, formula, state_dim=2, action_dim=2)
    assert found.normalize_state(np.ones((1, 2))).shape == (1, 2)


def test_finding_the_file(tmp_path, refused):
    with refused(CheckpointError, "norm_stats.json"):
        find_stats(tmp_path, "lab/robot", strict=False)
    other = tmp_path / "assets" / "other" / "norm_stats.json"
    other.parent.mkdir(parents=True)
    other.write_text("{}")
    assert find_stats(tmp_path, "lab/robot", strict=False) == other
    with refused(CheckpointError, "assets/other"):
        find_stats(tmp_path, "lab/robot", strict=True)
    mine = tmp_path / "lab" / "robot" / "norm_stats.json"
    mine.parent.mkdir(parents=True)
    mine.write_text("{}")
    assert find_stats(tmp_path, "lab/robot", strict=True) == mine
    again = tmp_path / "assets" / "lab" / "robot" / "norm_stats.json"
    again.parent.mkdir(parents=True)
    again.write_text("{}")
    assert find_stats(tmp_path, "lab/robot", strict=True) == again
    again.write_text("[]")
    with refused(CheckpointError, again):
        find_stats(tmp_path, "lab/robot", strict=True)


def test_the_range_from_minus_one_to_one_leaves_values_to_the_bit():
    """Half of [0, 512] around its middle is 256 around 256; [-1, 1] has mean 0 and std 1."""
    given = Stats.of_range(np.array([0.0]), np.array([512.0]))
    assert [float(part[0]) for part in vars(given).values()] == [256, 256, 0, 512]
    unit = Stats.identity(2)
    assert [part.tolist() for part in vars(unit).values()] == [[0, 0], [1, 1], [-1, -1], [1, 1]]
