"""Places and turns."""

from __future__ import annotations

import numpy as np
from rlcore_env_maniskill.put_on_plate import layouts


def test_the_training_grid() -> None:
    # 0.15 m around (-0.16, 0) in steps of 0.03 m
    points = layouts.inner_grid()
    np.testing.assert_allclose(points[0], (-0.235, -0.075))
    np.testing.assert_allclose(points[1], (-0.235, -0.045))
    np.testing.assert_allclose(points[-1], (-0.085, 0.075))


def test_held_out_places_are_one_step_outside() -> None:
    ring = layouts.outer_ring()
    offset = np.abs(ring - layouts.CENTRE).max(axis=1)
    np.testing.assert_allclose(offset, 0.075 + 0.03)
    assert len(np.unique(ring.round(6), axis=0)) == 28


def test_things_keep_their_distance() -> None:
    def gap(first: np.ndarray, second: np.ndarray) -> float:
        return float(np.linalg.norm(first - second, axis=-1).min())

    pairs = layouts.pairs(layouts.inner_grid())
    # the nearest two grid points more than 0.07 m apart are two steps off both ways
    np.testing.assert_allclose(gap(pairs[:, 0], pairs[:, 1]), 0.06 * 2**0.5)
    for wide, other in (("object", 1), ("plate", 0)):
        places = layouts.triples(wide)
        assert gap(places[:, 0], places[:, 1]) > 0.07
        assert gap(places[:, other], places[:, 2]) > 0.07
        assert gap(places[:, 1 - other], places[:, 2]) > 0.15 - 1e-9


def test_corners_are_all_ordered_pairs_of_four() -> None:
    places = layouts.corners().round(6)
    assert len(np.unique(places.reshape(12, 4), axis=0)) == 12
    assert (places[:, 0] != places[:, 1]).any(axis=1).all()


def test_arm_offsets_start_with_none_and_never_lean_far() -> None:
    offsets = layouts.arm_offsets()
    assert not offsets[0].any() and offsets[1:].any(axis=1).all()
    assert np.abs(offsets[:, 1] + offsets[:, 2]).max() <= 0.25
    assert np.abs(offsets).max(axis=0).tolist() == [0.15] * 5 + [0.6]
