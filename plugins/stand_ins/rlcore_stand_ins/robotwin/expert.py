"""The expert: picks things up, hands them over, puts them down. Plans a chunk at a time from where
the arms and the things are, with mplib.

A chunk moves arms or fingers, never both: a path is timed by the joints alone, so an arm can't wait
inside a chunk for fingers to close.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from rlcore_stand_ins.robotwin import arm
from rlcore_stand_ins.robotwin.planner import DOWN, ArmPlanner, grasp, length, resampled
from rlcore_stand_ins.robotwin.scene import Scene
from rlcore_stand_ins.robotwin.tasks import BLOCK, TABLE, TASKS, Thing

LEFT = 0
RIGHT = 1
CLEAR = 0.09  # height over a thing at which a hand comes and goes, m
WAYPOINT = 0.16  # way in joint space between the expert's targets, at most, rad
STACK_AT = (0.0, -0.13)  # as in RoboTwin
ROW_AT = -0.2  # y of a row of blocks; of RoboTwin's [-0.2, -0.1] the end without other blocks
ROW = {"blocks_ranking_rgb": (-0.085, 0.0, 0.085), "blocks_ranking_size": (-0.095, 0.0, 0.085)}
DROP = 0.002  # height from which things are let go, m
UP = -DOWN
# The handover: the left hand holds the box by its upper part, the right one takes it lower.
MEET_AT = np.array([0.0, 0.0, 0.92])  # the box's centre
UPPER = 0.06
LOWER = -0.05
TAKES = np.array([-1.0, 1.0, 0.0]) / np.sqrt(2.0)  # where the right hand points
BACK = 0.1  # way of the right hand to the box, m


@dataclass
class Segment:
    """A part of the plan: arms move along paths, or the grippers change.

    Attributes:
        paths: by side.
        grippers: values of both at its end.
    """

    grippers: tuple[float, float]
    paths: Mapping[int, np.ndarray] = field(default_factory=dict)


class Stuck(Exception):
    """No path was found; the expert gives up."""


class Expert:
    """Plans one episode. It stays where it is once it is done or stuck.

    Args:
        task: name of the task.
        scene: at its start.
        things: of the task.
        planners: of both arms.
    """

    def __init__(
        self, task: str, scene: Scene, things: Sequence[Thing], planners: Sequence[ArmPlanner]
    ) -> None:
        self._scene = scene
        self._things = {thing.name: thing for thing in things}
        self._planners = planners
        self._grippers = [1.0, 1.0]
        self._plan = self._handover() if task == "handover_block" else self._blocks(task)
        self._waiting: list[np.ndarray] = []

    def chunk(self, count: int, *, speed: float) -> np.ndarray:
        """The next `count` targets, float64 `[count, 14]`."""
        if not self._waiting:
            try:
                self._waiting = self._cut(next(self._plan, None), count, speed)
            except Stuck:
                self._plan = iter(())
                self._waiting = self._cut(None, count, speed)
        return self._waiting.pop(0)

    def _cut(self, segment: Segment | None, count: int, speed: float) -> list[np.ndarray]:
        """A segment in chunks, as few as its length allows."""
        here = self._scene.targets.copy()
        if segment is None:
            return [np.repeat(here[None], count, axis=0)]
        ways = [length(path) for path in segment.paths.values()]
        chunks = max(1, int(np.ceil(max(ways, default=0.0) / WAYPOINT / count / speed)))
        targets = np.repeat(here[None], chunks * count, axis=0)
        for side, path in segment.paths.items():
            targets[:, 7 * side : 7 * side + 6] = resampled(path, chunks * count)
        values = np.linspace(here[[6, 13]], segment.grippers, max(1, count // 3) + 1)[1:]
        targets[:, [6, 13]] = segment.grippers
        targets[: len(values), [6, 13]] = values
        return np.split(targets, chunks)

    # -- plans ------------------------------------------------------------------------------

    def _blocks(self, task: str) -> Iterator[Segment]:
        """Pick up one block after the other, each with the arm on its side."""
        last: int | None = None
        for place, name in enumerate(TASKS[task].blocks):
            half = self._things[name].half[2]
            block = self._scene.position(name)
            side = LEFT if block[0] < 0 else RIGHT
            paths = {side: self._pick(side, name)}
            if last is not None and last != side:
                paths[last] = self._home(last)
            yield self._move(paths)
            yield self._grip(side, 0.0)
            row = ROW.get(task)
            if row is None:
                goal = np.array([*STACK_AT, TABLE + half + 2 * BLOCK * place])
                if place:  # on the block below, where it came to lie
                    below = TASKS[task].blocks[place - 1]
                    goal[:2] = self._scene.position(below)[:2]
            else:
                slot = ("block1", "block2", "block3").index(name)
                goal = np.array([row[slot], ROW_AT, TABLE + half])
            yield self._move({side: self._carry(side, name, goal, turned=row is not None)})
            yield self._grip(side, 1.0)
            last = side

    def _handover(self) -> Iterator[Segment]:
        """The left arm brings the box to the middle, the right one takes it to the pad."""
        box = self._scene.position("box")
        pad = self._things["pad"]
        across = self._face(LEFT, box, self._scene.turn("box"))
        yield self._move({LEFT: self._way(LEFT, [
            grasp(box + (UPPER + CLEAR) * UP, DOWN, across), grasp(box + UPPER * UP, DOWN, across),
        ])})  # fmt: skip
        yield self._grip(LEFT, 0.0)
        meeting = self._nearest(LEFT, MEET_AT, np.cross(UP, TAKES))
        yield self._move({LEFT: self._way(LEFT, [
            self._hand(LEFT, rise=CLEAR), grasp(MEET_AT + UPPER * UP, DOWN, meeting),
        ])})  # fmt: skip
        level = np.cross(UP, TAKES)
        grasped = self._scene.position("box") + LOWER * UP
        yield self._move({RIGHT: self._way(RIGHT, [
            grasp(grasped - BACK * TAKES, TAKES, level), grasp(grasped, TAKES, level),
        ])})  # fmt: skip
        yield self._grip(RIGHT, 0.0)
        yield self._grip(LEFT, 1.0)
        bottom = np.array(pad.position) + (pad.half[2] + DROP) * UP
        goal = bottom + self._things["box"].half[2] * UP
        held = self._hand(RIGHT)[:3, 3] - self._scene.position("box")
        yield self._move({
            LEFT: self._home(LEFT),
            RIGHT: self._way(RIGHT, [
                grasp(goal + held + CLEAR * UP, TAKES, level), grasp(goal + held, TAKES, level),
            ]),
        })  # fmt: skip
        yield self._grip(RIGHT, 1.0)

    # -- segments ---------------------------------------------------------------------------

    def _move(self, paths: Mapping[int, np.ndarray]) -> Segment:
        return Segment((self._grippers[LEFT], self._grippers[RIGHT]), paths)

    def _grip(self, side: int, value: float) -> Segment:
        self._grippers[side] = value
        return self._move({})

    def _pick(self, side: int, name: str) -> np.ndarray:
        """From where the hand is to the block, from above."""
        block = self._scene.position(name)
        across = self._face(side, block, self._scene.turn(name))
        over, at = (grasp(block + rise * UP, DOWN, across) for rise in (CLEAR, 0.0))
        low = self._hand(side)[2, 3] < TABLE + 0.15
        return self._way(side, [self._hand(side, rise=CLEAR), over, at] if low else [over, at])

    def _carry(self, side: int, name: str, goal: np.ndarray, *, turned: bool) -> np.ndarray:
        """From where the block is held to its goal, over what lies between."""
        held = self._hand(side)[:3, 3] - self._scene.position(name)
        pose = self._hand(side)
        rise = CLEAR + max(0.0, goal[2] - self._scene.position(name)[2])
        across = np.array([0.0, 1.0, 0.0])  # in a row, fingers open where no neighbour stands
        if not turned:
            across = self._face(side, goal, np.eye(3))
        across = self._nearest(side, goal, across)
        # held aside of the block's centre by `held`, which turns with the hand
        turn = np.stack([DOWN, across, np.cross(DOWN, across)], axis=1) @ pose[:3, :3].T
        point = goal + turn @ held + DROP * UP
        return self._way(side, [
            self._hand(side, rise=rise), grasp(point + CLEAR * UP, DOWN, across),
            grasp(point, DOWN, across),
        ])  # fmt: skip

    def _home(self, side: int) -> np.ndarray:
        """Up and back."""
        up = self._way(side, [self._hand(side, rise=CLEAR)])
        rest = np.linspace(up[-1], arm.HOME, 9)
        return np.vstack([up, rest[1:]])

    def _way(self, side: int, poses: Sequence[np.ndarray]) -> np.ndarray:
        """A path through poses of the hand, from where the arm is bound for."""
        path = self._joints(side)[None]
        for pose in poses:
            segment = self._planners[side].path(path[-1], pose)
            if segment is None:
                raise Stuck
            path = np.vstack([path, segment[1:]])
        return path

    # -- hands ------------------------------------------------------------------------------

    def _joints(self, side: int) -> np.ndarray:
        return self._scene.targets[7 * side : 7 * side + 6].copy()

    def _hand(self, side: int, *, rise: float = 0.0) -> np.ndarray:
        """The pose that the hand is bound for, raised."""
        pose = self._planners[side].hand(self._joints(side))
        pose[2, 3] += rise
        return pose

    def _face(self, side: int, point: np.ndarray, turn: np.ndarray) -> np.ndarray:
        """Of a box's two ways across, in which the hand is turned least."""
        ways = [self._nearest(side, point, turn[:, axis]) for axis in (0, 1)]
        natural = self._natural(side, point)
        return max(ways, key=lambda way: float(way @ natural))

    def _nearest(self, side: int, point: np.ndarray, across: np.ndarray) -> np.ndarray:
        """A way across or its opposite, level and of length 1."""
        flat = np.array([across[0], across[1], 0.0])
        flat /= np.linalg.norm(flat)
        return flat if flat @ self._natural(side, point) >= 0 else -flat

    def _natural(self, side: int, point: np.ndarray) -> np.ndarray:
        """Across, where the hand's last joint is at zero: as it comes from the base."""
        out = (point - arm.BASES[side])[:2]
        return np.array([-out[1], out[0], 0.0]) / np.linalg.norm(out)
