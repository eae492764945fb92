"""Define RoboTwin's box-only tasks: starts and success criteria. Imports no simulator.

Sizes, ranges and thresholds are those of RoboTwin 2.0 (`envs/<task>.py`, branch RLinf_support).
The random draws differ, so a trial is not RoboTwin's scene of that seed.
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
OPEN = 0.8  # a gripper with a larger command counts as open
BLOCK = 0.025  # half the edge of a block to stack, m
# tolerances of a stacked block relative to the one below: x, y and height, m
STACKED = np.array([0.025, 0.025, 0.012])
RANKED = np.array([0.13, 0.03])  # largest distance of neighbours in a row: x, y; m
# tolerances of a handed-over box on its pad, m
PLACED = 0.03  # horizontal
LEVEL = 0.01  # height
APART = 0.1  # least distance of two blocks, m
# least distance of a block's start from the place where blocks are put down, m
CLEAR_OF_STACK = 0.15
CLEAR_OF_ROW = 0.1
LIFT = 1e-3  # height of things above the table at the start, as in RoboTwin, m


@dataclass(frozen=True)
class Thing:
    """A box.

    Attributes:
        name: name of the thing.
        half: half the lengths of its edges, m.
        colour: red, green, blue in [0, 1].
        position: position of its centre, m.
        yaw: rotation about the vertical, rad.
        fixed: whether it is static.
    """

    name: str
    half: tuple[float, float, float]
    colour: tuple[float, float, float]
    position: tuple[float, float, float]
    yaw: float = 0.0
    fixed: bool = False


@dataclass(frozen=True)
class Seen:
    """State of a scene that determines success.

    Attributes:
        positions: positions `[3]` of things by name, m.
        left, right: commands of the grippers in [0, 1], 1 open.
    """

    positions: Mapping[str, np.ndarray]
    left: float
    right: float


@dataclass(frozen=True)
class Task:
    """A task.

    Attributes:
        draw: function that draws the things of a start from a generator.
        fits: function that checks whether things have the distances that a start requires.
        solved: function that checks whether the task is solved.
        blocks: names of blocks in the order in which the expert puts them down.
    """

    draw: Callable[[np.random.Generator], tuple[Thing, ...]]
    fits: Callable[[Sequence[Thing]], bool]
    solved: Callable[[Seen, Sequence[Thing]], bool]
    blocks: tuple[str, ...]


def start(task: str, trial: int, *, spread: float = 1.0) -> tuple[Thing, ...]:
    """Return the things of a task at the start of a trial.

    Args:
        task: name of the task.
        trial: number of the trial.
        spread: fraction in (0, 1] by which positions and yaws are interpolated from the start of
            trial 0 to the start that is drawn. Sizes and colours are not interpolated.
    """
    random = generator("robotwin stand-in start", task, trial)
    things = TASKS[task].draw(random)
    if spread == 1:
        return things
    centre = start(task, 0)
    while True:
        interpolated = tuple(_between(a, b, spread) for a, b in zip(centre, things, strict=True))
        if TASKS[task].fits(interpolated):
            return interpolated
        things = TASKS[task].draw(random)


def _between(a: Thing, b: Thing, share: float) -> Thing:
    """Return `b` with its position and yaw interpolated between those of `a` and `b`."""
    x, y = (
        (1 - share) * p + share * q for p, q in zip(a.position[:2], b.position[:2], strict=True)
    )
    yaw = (1 - share) * a.yaw + share * b.yaw
    return replace(b, position=(x, y, b.position[2]), yaw=yaw)


def _place(draw: np.random.Generator, half: float) -> tuple[tuple[float, float, float], float]:
    """Draw position and yaw of a block, outside of the area where both arms work."""
    x = draw.uniform(-0.28, 0.28)
    y = draw.uniform(-0.08, 0.05)
    while _in_shared_area(x, y):
        y = draw.uniform(-0.08, 0.0)
    return (x, y, TABLE + LIFT + half), draw.uniform(-0.75, 0.75)


def _in_shared_area(x: float, y: float) -> bool:
    return abs(x) < 0.15 and y > 0


def _is_free(place: Sequence[float], others: Sequence[Thing], clear: float) -> bool:
    """Check whether a block may start at a place.

    Args:
        place: x and y of its centre, m.
        others: blocks that are placed already.
        clear: least distance from the place where blocks are put down, m.
    """
    x, y = place[:2]
    near = (np.hypot(x - block.position[0], y - block.position[1]) < APART for block in others)
    return bool(abs(x) >= 0.05 and np.hypot(x, y + 0.1) >= clear and not any(near))


def _distances_at_least(clear: float) -> Callable[[Sequence[Thing]], bool]:
    """Return a function that checks whether blocks have the distances that a start requires."""

    def fits(things: Sequence[Thing]) -> bool:
        return all(
            _is_free(thing.position, things[:number], clear)
            and not _in_shared_area(*thing.position[:2])
            for number, thing in enumerate(things)
        )

    return fits


def _not_yet_ranked(things: Sequence[Thing]) -> bool:
    places = {thing.name: np.array(thing.position) for thing in things}
    return _distances_at_least(CLEAR_OF_ROW)(things) and not _in_a_row(places)


def _blocks(
    draw: np.random.Generator,
    halves: Sequence[float],
    colours: Sequence[tuple[float, float, float]],
    *,
    clear: float,
) -> tuple[Thing, ...]:
    """Draw blocks with distances from each other, from the line between the arms, and from the
    place where they are put down (`clear`, m)."""
    blocks: list[Thing] = []
    names = ("block1", "block2", "block3")
    for name, half, colour in zip(names, halves, colours, strict=False):
        while True:
            position, yaw = _place(draw, half)
            if _is_free(position, blocks, clear):
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
            if _not_yet_ranked(things):
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
    """Check that each block is on the previous one, 5 cm higher, and both grippers are open."""
    positions = [seen.positions[thing.name] for thing in things]
    offset = np.array([0.0, 0.0, 2 * BLOCK])
    stacked = (bool((abs(b - a - offset) < STACKED).all()) for a, b in pairwise(positions))
    return all(stacked) and _grippers_open(seen)


def _ranked(seen: Seen, things: Sequence[Thing]) -> bool:
    """Check that the blocks are in a row in their order, and that both grippers are open."""
    return _in_a_row(seen.positions) and _grippers_open(seen)


def _in_a_row(positions: Mapping[str, np.ndarray]) -> bool:
    row = [positions[name][:2] for name in ("block1", "block2", "block3")]
    return all(bool((abs(a - b) < RANKED).all()) and a[0] < b[0] for a, b in pairwise(row))


def _handed_over(seen: Seen, things: Sequence[Thing]) -> bool:
    """Check that the box is on the pad and that the right gripper is open."""
    box, pad = things
    bottom = seen.positions["box"] - [0.0, 0.0, box.half[2]]
    top = np.add(pad.position, [0.0, 0.0, pad.half[2]])
    gap = abs(bottom - top)
    return bool((gap[:2] < PLACED).all()) and gap[2] < LEVEL and seen.right > OPEN


def _grippers_open(seen: Seen) -> bool:
    return seen.left > OPEN and seen.right > OPEN


TWO = ("block1", "block2")
THREE = ("block1", "block2", "block3")
TASKS = {
    "stack_blocks_two": Task(_to_stack(2), _distances_at_least(CLEAR_OF_STACK), _stacked, TWO),
    "stack_blocks_three": Task(_to_stack(3), _distances_at_least(CLEAR_OF_STACK), _stacked, THREE),
    "blocks_ranking_rgb": Task(_to_rank(_one_size, coloured=True), _not_yet_ranked, _ranked, THREE),
    "blocks_ranking_size": Task(
        _to_rank(_three_sizes, coloured=False), _not_yet_ranked, _ranked, THREE[::-1]
    ),
    # the ranges of box and pad do not overlap
    "handover_block": Task(_to_hand_over, lambda things: True, _handed_over, ("box",)),
}
