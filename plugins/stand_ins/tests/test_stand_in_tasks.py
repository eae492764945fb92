"""The stand-in's tasks: starts within RoboTwin's ranges, its rules of success. Numbers alone."""

from __future__ import annotations

import functools
import itertools

import numpy as np
import pytest
from rlcore_stand_ins.robotwin.tasks import TASKS, Seen, Thing, start

from rlcore.contracts.rng import generator

TRIALS = range(100)
LYING = 0.741 + 0.025  # height of a block's centre on the table, m


@functools.cache
def drawn(task: str) -> list[tuple[Thing, ...]]:
    return [TASKS[task].draw(generator("test", task, trial)) for trial in TRIALS]


def at(things: tuple[Thing, ...], *places: tuple[float, float, float], grippers=(1.0, 1.0)) -> Seen:
    positions = {t.name: np.array(place) for t, place in zip(things, places, strict=True)}
    return Seen(positions, *grippers)


@pytest.mark.parametrize(
    ("task", "count", "clear"),
    [
        ("stack_blocks_two", 2, 0.15),
        ("stack_blocks_three", 3, 0.15),
        ("blocks_ranking_rgb", 3, 0.1),
        ("blocks_ranking_size", 3, 0.1),
    ],
)
def test_blocks_start_where_robotwin_puts_them(task: str, count: int, clear: float) -> None:
    for things in drawn(task):
        assert len(things) == count
        for thing in things:
            x, y, z = thing.position
            assert 0.05 <= abs(x) <= 0.28 and -0.08 <= y <= (0.0 if abs(x) < 0.15 else 0.05)
            assert np.hypot(x, y + 0.1) >= clear and abs(thing.yaw) <= 0.75
            assert z == pytest.approx(0.741 + thing.half[2])
        for a, b in itertools.combinations(things, 2):
            assert np.hypot(*np.subtract(a.position, b.position)[:2]) >= 0.1


def test_sizes_and_colours_are_robotwin_s() -> None:
    red, green, blue = np.eye(3).tolist()
    for things in drawn("stack_blocks_three"):
        assert [list(t.colour) for t in things] == [red, green, blue]
        assert {t.half for t in things} == {(0.025,) * 3}
    rgb = drawn("blocks_ranking_rgb")
    assert all(len({t.half for t in things}) == 1 for things in rgb)
    edges = [things[0].half[0] for things in rgb]
    assert 0.015 <= min(edges) < 0.0155 and 0.0245 < max(edges) <= 0.025
    for large, medium, small in drawn("blocks_ranking_size"):
        assert 0.03 <= large.half[0] <= 0.033
        assert 0.024 <= medium.half[0] <= 0.027
        assert 0.018 <= small.half[0] <= 0.021


def test_the_box_to_hand_over_is_the_left_arm_s_and_its_pad_the_right_one_s() -> None:
    for box, pad in drawn("handover_block"):
        assert -0.25 <= box.position[0] <= -0.05 and 0.0 <= box.position[1] <= 0.25
        assert 0.1 <= pad.position[0] <= 0.25 and 0.15 <= pad.position[1] <= 0.2
        # a turn of 2 arctan(0.195 / 0.981) = 0.3925 rad and up to 0.2 either way
        assert 0.19 <= box.yaw <= 0.6 and pad.fixed
        assert box.position[2] == pytest.approx(0.842)


@pytest.mark.quick(1)
@pytest.mark.parametrize("task", sorted(TASKS))
def test_starts_that_lie_close_are_on_the_way_from_trial_0(task: str) -> None:
    """With a spread of s, things stand at (1 - s) a + s b, so the ranges shrink to s of theirs
    about the same share of the way to trial 0; whatever is allowed there is allowed here."""
    middle = start(task, 0)
    for trial in TRIALS:
        wide, close = start(task, trial), start(task, trial, spread=0.25)
        assert TASKS[task].fits(wide) and TASKS[task].fits(close)
        for a, b in zip(middle, close, strict=True):
            # blocks range over 0.56 m by 0.13 m, boxes and pads over 0.2 m by 0.25 m at most
            assert abs(b.position[0] - a.position[0]) <= 0.25 * 0.56
            assert abs(b.position[1] - a.position[1]) <= 0.25 * 0.25
            assert abs(b.yaw - a.yaw) <= 0.25 * 1.5
            assert b.position[2] == pytest.approx(0.741 + b.half[2], abs=0.006)
    assert start(task, 7, spread=0.25) == start(task, 7, spread=0.25) != start(task, 8, spread=0.25)


def test_a_spread_is_a_share_of_the_way() -> None:
    (box, pad), (middle, goal) = start("handover_block", 5), start("handover_block", 0)
    near, beside = start("handover_block", 5, spread=0.25)
    assert near.position[:2] == pytest.approx(
        [0.75 * a + 0.25 * b for a, b in zip(middle.position[:2], box.position[:2], strict=True)]
    )
    assert near.yaw == pytest.approx(0.75 * middle.yaw + 0.25 * box.yaw)
    assert beside.position[0] == pytest.approx(0.75 * goal.position[0] + 0.25 * pad.position[0])
    assert start("handover_block", 5, spread=1.0) == (box, pad)


@pytest.mark.parametrize("task", sorted(TASKS))
def test_nothing_is_solved_at_its_start(task: str) -> None:
    for things in drawn(task):
        assert not TASKS[task].solved(at(things, *(t.position for t in things)), things)


@pytest.mark.parametrize(
    ("green", "grippers", "solved"),
    [
        ((0.0, 0.0, 0.05), (1.0, 1.0), True),
        ((0.024, -0.024, 0.061), (0.81, 0.81), True),
        ((0.026, 0.0, 0.05), (1.0, 1.0), False),  # aside
        ((0.0, 0.0, 0.063), (1.0, 1.0), False),  # in the air
        ((0.0, 0.0, 0.05), (0.8, 1.0), False),  # held
        ((0.0, 0.0, 0.05), (1.0, 0.0), False),  # the other gripper is closed
    ],
)
def test_a_stack_is_aligned_and_let_go(green, grippers, solved: bool) -> None:
    things = drawn("stack_blocks_two")[0]
    red = np.array([0.01, -0.13, LYING])
    seen = at(things, tuple(red), tuple(red + green), grippers=grippers)
    assert TASKS["stack_blocks_two"].solved(seen, things) == solved


def test_three_blocks_are_stacked_on_each_other_in_order() -> None:
    things = drawn("stack_blocks_three")[0]
    heights = [(0.0, -0.13, LYING + 0.05 * n) for n in range(3)]
    solved = TASKS["stack_blocks_three"].solved
    assert solved(at(things, *heights), things)
    assert not solved(at(things, heights[0], heights[2], heights[1]), things)
    assert not solved(at(things, heights[0], heights[1], (0.1, 0.0, LYING)), things)


@pytest.mark.parametrize(
    ("xs", "ys", "grippers", "solved"),
    [
        ((-0.09, 0.0, 0.09), (-0.1, -0.1, -0.1), (1.0, 1.0), True),
        ((-0.12, 0.0, 0.12), (-0.1, -0.125, -0.1), (1.0, 1.0), True),
        ((-0.14, 0.0, 0.1), (-0.1, -0.1, -0.1), (1.0, 1.0), False),  # too far apart
        ((-0.09, 0.0, 0.09), (-0.1, -0.14, -0.1), (1.0, 1.0), False),  # not in a row
        ((0.0, -0.09, 0.09), (-0.1, -0.1, -0.1), (1.0, 1.0), False),  # in another order
        ((-0.09, 0.0, 0.09), (-0.1, -0.1, -0.1), (1.0, 0.5), False),  # held
    ],
)
@pytest.mark.parametrize("task", ["blocks_ranking_rgb", "blocks_ranking_size"])
def test_a_row_goes_from_left_to_right(task: str, xs, ys, grippers, solved: bool) -> None:
    things = drawn(task)[0]
    places = [(x, y, 0.76) for x, y in zip(xs, ys, strict=True)]
    assert TASKS[task].solved(at(things, *places, grippers=grippers), things) == solved


@pytest.mark.parametrize(
    ("gap", "right", "solved"),
    [
        ((0.0, 0.0, 0.0), 1.0, True),
        ((0.029, -0.029, 0.009), 1.0, True),
        ((0.031, 0.0, 0.0), 1.0, False),
        ((0.0, 0.0, 0.011), 1.0, False),
        ((0.0, 0.0, 0.0), 0.8, False),
    ],
)
def test_a_box_stands_on_its_pad(gap, right: float, solved: bool) -> None:
    """Only the right gripper must be open, as in RoboTwin."""
    box, pad = drawn("handover_block")[0]
    # half the pad's thickness and half the box's height above the pad's centre
    place = np.add(pad.position, [0.0, 0.0, 0.005 + 0.1]) + gap
    seen = at((box, pad), tuple(place), pad.position, grippers=(0.0, right))
    assert TASKS["handover_block"].solved(seen, (box, pad)) == solved
