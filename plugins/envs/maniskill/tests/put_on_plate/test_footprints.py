"""Stand-ins start beside each other: circles around their footprints, for every layout."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from rlcore_env_maniskill.put_on_plate.variants import VARIANTS
from rlcore_stand_ins.maniskill import OBJECTS, PLATES

GRIPPER = 80  # mm, how wide a panda opens


def radii(rows: tuple) -> dict[str, float]:
    """Farthest point of each footprint from its middle, metres, so for any turn about the vertical:
    the corner of a box; of what is round, half its longest edge."""
    return {
        name: (np.hypot(*half[:2]) if shape == "box" else max(half[:2])) / 1000
        for name, shape, half, _ in rows
    }


def slots(variant: str) -> list[dict[str, float]]:
    """What may lie at each slot of a layout."""
    objects, plates = radii(OBJECTS), radii(PLATES)
    third = {None: [], "object": [objects], "plate": [plates]}
    moved = [objects] if VARIANTS[variant].moves_after is not None else []
    return [objects, plates, *(third[VARIANTS[variant].second] or moved)]


@pytest.mark.parametrize("variant", VARIANTS)
def test_nothing_starts_inside_another(variant: str) -> None:
    places = VARIANTS[variant].places()
    for (one, first), (other, second) in itertools.combinations(enumerate(slots(variant)), 2):
        nearest = np.linalg.norm(places[:, one] - places[:, other], axis=-1).min()
        touching = {
            (a, b): round(first[a] + second[b], 4)
            for a, b in itertools.product(first, second)
            if first[a] + second[b] > nearest - 0.0005
        }
        assert not touching, f"{nearest:.4f} m between slots {one} and {other}"


def test_the_circle_of_a_box_goes_through_its_corner() -> None:
    square = (("square", "box", (30, 40, 3), (0, 0, 0)),)
    assert radii(square) == {"square": pytest.approx(0.05)}  # 3, 4, 5


def test_objects_fit_into_the_gripper() -> None:
    assert all(2 * min(half[:2]) < GRIPPER for _, _, half, _ in OBJECTS)
