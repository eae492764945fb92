"""Where the scripted expert takes hold of a thing: in scenes of a few boxes, worked out by hand."""

from __future__ import annotations

from math import inf, pi, sqrt

import mujoco
import numpy as np
import pytest
from rlcore_env_libero.grasp import HOLD, PALM, ROOM, TIP, Grasp, choose, heights

DEPTH = 0.03


def scene(*boxes: str, thing: str) -> tuple[mujoco.MjModel, mujoco.MjData]:
    """A floor, the robot's base far away, a thing at the origin, and boxes as `pos/size`."""
    others = "".join(
        f'<geom type="box" pos="{at}" size="{size}"/>' for at, size in (b.split("/") for b in boxes)
    )
    model = mujoco.MjModel.from_xml_string(
        f"""<mujoco><worldbody>
        <geom type="plane" size="1 1 1"/>{others}
        <body name="robot0_base" pos="0 0 1"><geom type="box" size=".3 .3 .01"/></body>
        <body name="thing">{thing}</body>
        </worldbody></mujoco>"""
    )
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    return model, data


def grasp(*boxes: str, thing: str) -> Grasp:
    """With the fingers along y, from beside."""
    model, data = scene(*boxes, thing=thing)
    body = model.body("thing").id
    hand = np.array([-0.2, 0.0, 0.3])
    return choose(model, data, body, hand=hand, yaw=pi / 2, depth=DEPTH)


CUBE = '<geom type="box" pos="0 0 .03" size=".02 .02 .03"/>'


def test_heights_are_those_of_the_boxes_upper_sides() -> None:
    model, data = scene(
        "0.2 0 0.1/.02 .02 .03",
        thing='<geom type="box" pos="0 0 .05" size=".02 .02 .02" euler="0 45 0"/>',
    )
    points = np.array([[0.0, 0.0], [0.01, 0.0], [0.0, 0.03], [0.2, 0.01], [0.5, 0.5]])
    ridge = 0.05 + 0.02 * sqrt(2)
    found = heights(model, data, np.arange(model.ngeom)[[1, 3]], points)
    np.testing.assert_allclose(found, [ridge, ridge - 0.01, -inf, 0.13, -inf], atol=1e-9)
    assert heights(model, data, np.array([0]), points).tolist() == [0.0] * 5  # the floor


def test_a_narrow_thing_is_gripped_in_its_middle() -> None:
    found = grasp(thing=CUBE)
    assert (found.offset, found.turn) == ((0.0, 0.0), 0.0)
    assert found.lowest == pytest.approx(TIP + ROOM)  # the floor


def test_a_thing_too_wide_one_way_is_gripped_the_other_way() -> None:
    found = grasp(thing='<geom type="box" pos="0 0 .03" size=".02 .09 .03"/>')
    assert found.offset == (0.0, 0.0) and abs(found.turn) > pi / 4


def test_a_wide_vessel_is_gripped_at_its_wall() -> None:
    """Walls 12 cm apart: between the fingers must be one of them, and beside it no floor."""
    walls = "".join(
        f'<geom type="box" pos="{at}" size="{size}"/>'
        for at, size in (
            (".06 0 .03", ".002 .06 .03"),
            ("-.06 0 .03", ".002 .06 .03"),
            ("0 .06 .03", ".06 .002 .03"),
            ("0 -.06 .03", ".06 .002 .03"),
            ("0 0 .002", ".06 .06 .002"),
        )
    )
    found = grasp(thing=walls)
    assert found.turn == 0.0 and abs(found.offset[1]) == pytest.approx(0.06, abs=0.011)
    assert found.lowest == pytest.approx(0.004 + TIP + ROOM)  # its bottom


def test_the_hand_does_not_come_down_on_a_neighbour() -> None:
    """9 cm beside a flat thing, under the hand, stands something tall."""
    flat = '<geom type="box" pos="0 0 .01" size=".04 .02 .01"/>'
    tall = "0 0.09 0.05/.03 .03 .05"
    point = 0.02 + TIP - HOLD  # as low as it must come to hold a thing of 2 cm
    beside = grasp(tall, thing=flat)
    assert beside.lowest <= point and (beside.offset, beside.turn) != ((0.0, 0.0), 0.0)
    assert grasp("0 0.3 0.05/.03 .03 .05", thing=flat).turn == 0.0


def test_the_path_leads_over_obstacles() -> None:
    # in the way of a finger, and of the hand alone; in between, nothing touches it
    in_the_way = {0.045: 0.2 + TIP + ROOM, 0.09: 0.2 - PALM + ROOM, 0.0: 0.2 - PALM + ROOM}
    for beside, height in in_the_way.items():
        found = grasp(f"-0.1 {beside} 0.1/.005 .005 .1", thing=CUBE).on_the_way
        assert found == pytest.approx(height)
