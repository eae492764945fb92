"""RoboTwin's box-only tasks: where things start and when a task is solved. Numbers alone.

Sizes, ranges and thresholds are those of RoboTwin 2.0 (`envs/<task>.py`, branch RLinf_support);
the draws are our own, so a trial is not RoboTwin's scene of that seed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from rlcore.contracts.rng import generator

TABLE = 0.74  # height of its top, m
RED = (1.0, 0.0, 0.0)
GREEN = (0.0, 1.0, 0.0)
BLUE = (0.0, 0.0, 1.0)
OPEN = 0.8  # a gripper's command counts as open above it
BLOCK = 0.025  # half the edge of a block to stack, m
# A stacked block lies this exactly on the one below: along x, y and in height, m.
STACKED = np.array([0.025, 0.025, 0.012])
RANKED = np.array([0.13, 0.03])  # neighbours in a row lie at most this far apart: x, y; m
PLACED, LEVEL = 0.03, 0.01  # a handed-over box stands this exactly on its pad: sideways, height; m
APART = 0.1  # least distance of two blocks, m
CLEAR_OF_STACK, CLEAR_OF_ROW = 0.15, 0.1  # least distance from where they are put down, m
LIFT = 1e-3  # things start this far over the table, as in RoboTwin, m


@dataclass(frozen=True)
class Thing:
    """A box.

    Attributes:
        half: half its edges, m; `colour`: red, green, blue in [0, 1].
        position: of its centre, m; `yaw`: its turn about the vertical, rad.
        fixed: whether nothing moves it.
    """

    name: str
    half: tuple[float, float, float]
    colour: tuple[float, float, float]
    position: tuple[float, float, float]
    yaw: float = 0.0
    fixed: bool = False


@dataclass(frozen=True)
class Seen:
    """What decides success: positions `[3]` of things by name, m, and the grippers' commands in
    [0, 1], 1 open."""

    positions: Mapping[str, np.ndarray]
    left: float
    right: float


@dataclass(frozen=True)
class Task:
    """A task.

    Attributes:
        draw: its things at a start, by a generator.
        fits: whether things may start so, as far as they keep to the ranges that `draw` has.
        solved: whether it is solved.
        blocks: in the order in which the expert puts them down.
    """

    draw: Callable[[np.random.Generator], tuple[Thing, ...]]
    fits: Callable[[Sequence[Thing]], bool]
    solved: Callable[[Seen, Sequence[Thing]], bool]
    blocks: tuple[str, ...]


def start(task: str, trial: int, *, spread: float = 1.0) -> tuple[Thing, ...]:
    """The things of a task at the start of a trial.

    spread: where they stand, and how they are turned, as a share in (0, 1] of the way from the
        start of trial 0 to the one that is drawn. Sizes and colours are as drawn.
    """
    draw = generator("robotwin stand-in start", task, trial)
    things = TASKS[task].draw(draw)
    if spread == 1:
        return things
    middle = start(task, 0)
    while True:
        near = tuple(_between(a, b, spread) for a, b in zip(middle, things, strict=True))
        if TASKS[task].fits(near):
            return near
        things = TASKS[task].draw(draw)


def _between(a: Thing, b: Thing, share: float) -> Thing:
    """`b`, as far from where `a` stands."""
    x, y = (
        (1 - share) * p + share * q for p, q in zip(a.position[:2], b.position[:2], strict=True)
    )
    yaw = (1 - share) * a.yaw + share * b.yaw
    return replace(b, position=(x, y, b.position[2]), yaw=yaw)


def _place(draw: np.random.Generator, half: float) -> tuple[tuple[float, float, float], float]:
    """A place for a block: nearer the robot in the middle of the table, where arms meet."""
    x = draw.uniform(-0.28, 0.28)
    y = draw.uniform(-0.08, 0.05)
    while _where_arms_meet(x, y):
        y = draw.uniform(-0.08, 0.0)
    return (x, y, TABLE + LIFT + half), draw.uniform(-0.75, 0.75)


def _where_arms_meet(x: float, y: float) -> bool:
    return abs(x) < 0.15 and y > 0


def _free(place: Sequence[float], others: Sequence[Thing], clear: float) -> bool:
    """Whether a block may start there, beside others."""
    x, y = place[:2]
    near = (np.hypot(x - other.position[0], y - other.position[1]) < APART for other in others)
    return bool(abs(x) >= 0.05 and np.hypot(x, y + 0.1) >= clear and not any(near))


def _apart(clear: float) -> Callable[[Sequence[Thing]], bool]:
    """Whether blocks may start so."""

    def fits(things: Sequence[Thing]) -> bool:
        return all(
            _free(thing.position, things[:number], clear)
            and not _where_arms_meet(*thing.position[:2])
            for number, thing in enumerate(things)
        )

    return fits


def _unranked(things: Sequence[Thing]) -> bool:
    places = {thing.name: np.array(thing.position) for thing in things}
    return _apart(CLEAR_OF_ROW)(things) and not _in_a_row(places)


def _blocks(
    draw: np.random.Generator,
    halves: Sequence[float],
    colours: Sequence[tuple[float, float, float]],
    *,
    clear: float,
) -> tuple[Thing, ...]:
    """Blocks apart from each other, from the line between the arms, and by `clear` from the place
    in front of it where they are put down."""
    blocks: list[Thing] = []
    names = ("block1", "block2", "block3")
    for name, half, colour in zip(names, halves, colours, strict=False):
        while True:
            position, yaw = _place(draw, half)
            if _free(position, blocks, clear):
                break
        blocks.append(Thing(name, (half, half, half), colour, position, yaw))
    return tuple(blocks)


def _to_stack(count: int) -> Callable[[np.random.Generator], tuple[Thing, ...]]:
    def draw(generator: np.random.Generator) -> tuple[Thing, ...]:
        return _blocks(generator, [BLOCK] * count, (RED, GREEN, BLUE), clear=CLEAR_OF_STACK)

    return draw


def _to_rank(
    sizes: Callable[[np.random.Generator], Sequence[float]], *, coloured: bool
) -> Callable[[np.random.Generator], tuple[Thing, ...]]:
    def draw(generator: np.random.Generator) -> tuple[Thing, ...]:
        colours = (RED, GREEN, BLUE)
        if not coloured:
            red, green, blue = generator.random((3, 3)).tolist()
            colours = (tuple(red), tuple(green), tuple(blue))
        halves = sizes(generator)
        while True:
            things = _blocks(generator, halves, colours, clear=CLEAR_OF_ROW)
            if _unranked(things):
                return things

    return draw


def _one_size(draw: np.random.Generator) -> list[float]:
    return [draw.uniform(0.015, 0.025)] * 3


def _three_sizes(draw: np.random.Generator) -> list[float]:
    return [draw.uniform(*ends) for ends in ((0.03, 0.033), (0.024, 0.027), (0.018, 0.021))]


def _to_hand_over(draw: np.random.Generator) -> tuple[Thing, ...]:
    x = draw.uniform(-0.25, -0.05)
    y = draw.uniform(0.0, 0.25)
    yaw = 2 * np.arctan2(0.195, 0.981) + draw.uniform(-0.2, 0.2)
    pad = (draw.uniform(0.1, 0.25), draw.uniform(0.15, 0.2), TABLE + LIFT)
    return (
        Thing("box", (0.03, 0.03, 0.1), RED, (x, y, TABLE + 2 * LIFT + 0.1), yaw),
        Thing("pad", (0.05, 0.05, 0.005), BLUE, pad, fixed=True),
    )


def _stacked(seen: Seen, things: Sequence[Thing]) -> bool:
    """Each block on the one before, 5 cm up; both grippers open."""
    heap = [seen.positions[thing.name] for thing in things]
    up = np.array([0.0, 0.0, 2 * BLOCK])
    stacked = (bool((abs(b - a - up) < STACKED).all()) for a, b in pairwise(heap))
    return all(stacked) and _let_go(seen)


def _ranked(seen: Seen, things: Sequence[Thing]) -> bool:
    """The blocks from left to right, in a row; both grippers open."""
    return _in_a_row(seen.positions) and _let_go(seen)


def _in_a_row(positions: Mapping[str, np.ndarray]) -> bool:
    row = [positions[name][:2] for name in ("block1", "block2", "block3")]
    return all(bool((abs(a - b) < RANKED).all()) and a[0] < b[0] for a, b in pairwise(row))


def _handed_over(seen: Seen, things: Sequence[Thing]) -> bool:
    """The box's bottom on the pad's top; the right gripper open."""
    box, pad = things
    bottom = seen.positions["box"] - [0.0, 0.0, box.half[2]]
    top = np.add(pad.position, [0.0, 0.0, pad.half[2]])
    gap = abs(bottom - top)
    return bool((gap[:2] < PLACED).all()) and gap[2] < LEVEL and seen.right > OPEN


def _let_go(seen: Seen) -> bool:
    return seen.left > OPEN and seen.right > OPEN


TWO = ("block1", "block2")
THREE = ("block1", "block2", "block3")
TASKS = {
    "stack_blocks_two": Task(_to_stack(2), _apart(CLEAR_OF_STACK), _stacked, TWO),
    "stack_blocks_three": Task(_to_stack(3), _apart(CLEAR_OF_STACK), _stacked, THREE),
    "blocks_ranking_rgb": Task(_to_rank(_one_size, coloured=True), _unranked, _ranked, THREE),
    "blocks_ranking_size": Task(
        _to_rank(_three_sizes, coloured=False), _unranked, _ranked, THREE[::-1]
    ),
    # box and pad never meet: their ranges are apart
    "handover_block": Task(_to_hand_over, lambda things: True, _handed_over, ("box",)),
}
