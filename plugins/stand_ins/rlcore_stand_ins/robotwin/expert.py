"""Plan demonstrations with mplib: pick blocks up, hand them over, put them down.

Each motion is planned when it begins, from the current poses of arms and things. A chunk moves arms
or fingers, never both: a path is timed by the arm's joints alone, so an arm can't wait inside a
chunk until the fingers are closed.
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
CLEAR = 0.09  # height above a thing from which a hand approaches and to which it retreats, m
WAYPOINT = 0.16  # largest distance of successive targets in joint space, rad
STACK_AT = (0.0, -0.13)  # as in RoboTwin
ROW_AT = -0.2  # y of a row of blocks, m: the end of RoboTwin's [-0.2, -0.1] that is always free
ROW = {"blocks_ranking_rgb": (-0.085, 0.0, 0.085), "blocks_ranking_size": (-0.095, 0.0, 0.085)}
DROP = 0.002  # height above the goal at which things are released, m
UP = -DOWN
# Handover: the left hand holds the upper part of the box, the right hand takes the lower part.
MEET_AT = np.array([0.0, 0.0, 0.92])  # centre of the box, m
UPPER = 0.06  # height of the left grasp above the centre of the box, m
LOWER = -0.05  # likewise of the right grasp
TAKES = np.array([-1.0, 1.0, 0.0]) / np.sqrt(2.0)  # direction of the right hand's fingers
BACK = 0.1  # length of the right hand's straight approach to the box, m


@dataclass
class Segment:
    """Part of a plan: arms move along paths, or grippers open or close.

    Attributes:
        grippers: values of both grippers at its end.
        paths: waypoints `[P, 6]` of each moving arm, by side.
    """

    grippers: tuple[float, float]
    paths: Mapping[int, np.ndarray] = field(default_factory=dict)


class Stuck(Exception):
    """Error that ends a plan: no path was found."""


class Expert:
    """Planner of one episode. Once its plan has ended or failed, it repeats its last targets.

    Args:
        task: name of the task.
        scene: scene of the episode, at its start.
        things: things of the task.
        planners: planners of both arms.
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
        """Return the next `count` targets, float64 `[count, 14]`."""
        if not self._waiting:
            try:
                self._waiting = self._chunks(next(self._plan, None), count, speed)
            except Stuck:
                self._plan = iter(())
                self._waiting = self._chunks(None, count, speed)
        return self._waiting.pop(0)

    def _chunks(self, segment: Segment | None, count: int, speed: float) -> list[np.ndarray]:
        """Divide a segment into the fewest chunks that respect the largest distance of targets.

        Without a segment, return one chunk that repeats the current targets.
        """
        current = self._scene.targets.copy()
        if segment is None:
            return [np.repeat(current[None], count, axis=0)]
        lengths = [length(path) for path in segment.paths.values()]
        chunks = max(1, int(np.ceil(max(lengths, default=0.0) / WAYPOINT / count / speed)))
        targets = np.repeat(current[None], chunks * count, axis=0)
        for side, path in segment.paths.items():
            targets[:, 7 * side : 7 * side + 6] = resampled(path, chunks * count)
        closing = np.linspace(current[[6, 13]], segment.grippers, max(1, count // 3) + 1)[1:]
        targets[:, [6, 13]] = segment.grippers
        targets[: len(closing), [6, 13]] = closing
        return np.split(targets, chunks)

    # -- plans ------------------------------------------------------------------------------

    def _blocks(self, task: str) -> Iterator[Segment]:
        """Yield the segments that move the blocks in turn, each by the arm on its side."""
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
                if place:  # the actual position of the block below
                    below = TASKS[task].blocks[place - 1]
                    goal[:2] = self._scene.position(below)[:2]
            else:
                slot = ("block1", "block2", "block3").index(name)
                goal = np.array([row[slot], ROW_AT, TABLE + half])
            yield self._move({side: self._carry(side, name, goal, turned=row is not None)})
            yield self._grip(side, 1.0)
            last = side

    def _handover(self) -> Iterator[Segment]:
        """Yield the segments in which the left arm brings the box to the middle, and the right arm
        takes it from there to the pad."""
        box = self._scene.position("box")
        pad = self._things["pad"]
        across = self._closing_axis(LEFT, box, self._scene.turn("box"))
        approach = grasp(box + (UPPER + CLEAR) * UP, DOWN, across)
        upper_grasp = grasp(box + UPPER * UP, DOWN, across)
        yield self._move({LEFT: self._path_through(LEFT, [approach, upper_grasp])})
        yield self._grip(LEFT, 0.0)
        meeting = self._oriented(LEFT, MEET_AT, np.cross(UP, TAKES))
        lift = self._hand(LEFT, rise=CLEAR)
        meet = grasp(MEET_AT + UPPER * UP, DOWN, meeting)
        yield self._move({LEFT: self._path_through(LEFT, [lift, meet])})
        level = np.cross(UP, TAKES)
        grasped = self._scene.position("box") + LOWER * UP
        approach = grasp(grasped - BACK * TAKES, TAKES, level)
        lower_grasp = grasp(grasped, TAKES, level)
        yield self._move({RIGHT: self._path_through(RIGHT, [approach, lower_grasp])})
        yield self._grip(RIGHT, 0.0)
        yield self._grip(LEFT, 1.0)
        bottom = np.array(pad.position) + (pad.half[2] + DROP) * UP
        goal = bottom + self._things["box"].half[2] * UP
        held = self._hand(RIGHT)[:3, 3] - self._scene.position("box")
        approach = grasp(goal + held + CLEAR * UP, TAKES, level)
        place = grasp(goal + held, TAKES, level)
        retreat = self._home(LEFT)
        yield self._move({LEFT: retreat, RIGHT: self._path_through(RIGHT, [approach, place])})
        yield self._grip(RIGHT, 1.0)

    # -- segments ---------------------------------------------------------------------------

    def _move(self, paths: Mapping[int, np.ndarray]) -> Segment:
        return Segment((self._grippers[LEFT], self._grippers[RIGHT]), paths)

    def _grip(self, side: int, value: float) -> Segment:
        self._grippers[side] = value
        return self._move({})

    def _pick(self, side: int, name: str) -> np.ndarray:
        """Return a path of the hand to a block, from above."""
        block = self._scene.position(name)
        across = self._closing_axis(side, block, self._scene.turn(name))
        poses = [grasp(block + height * UP, DOWN, across) for height in (CLEAR, 0.0)]
        if self._hand(side)[2, 3] < TABLE + 0.15:  # a low hand might hit a block on its way
            poses.insert(0, self._hand(side, rise=CLEAR))
        return self._path_through(side, poses)

    def _carry(self, side: int, name: str, goal: np.ndarray, *, turned: bool) -> np.ndarray:
        """Return a path of the hand that carries a block to its goal, above all others.

        Args:
            side: arm that holds the block.
            name: name of the block.
            goal: goal of its centre, m.
            turned: whether the fingers must open along y, as neighbours in the row are along x.
        """
        held = self._hand(side)[:3, 3] - self._scene.position(name)
        pose = self._hand(side)
        rise = CLEAR + max(0.0, goal[2] - self._scene.position(name)[2])
        across = np.array([0.0, 1.0, 0.0])
        if not turned:
            across = self._closing_axis(side, goal, np.eye(3))
        across = self._oriented(side, goal, across)
        # `held`, from the block's centre to the hand, turns with the hand
        turn = np.stack([DOWN, across, np.cross(DOWN, across)], axis=1) @ pose[:3, :3].T
        point = goal + turn @ held + DROP * UP
        return self._path_through(
            side,
            [
                self._hand(side, rise=rise),
                grasp(point + CLEAR * UP, DOWN, across),
                grasp(point, DOWN, across),
            ],
        )

    def _home(self, side: int) -> np.ndarray:
        """Return a path of an arm up, and then to its initial joints."""
        up = self._path_through(side, [self._hand(side, rise=CLEAR)])
        rest = np.linspace(up[-1], arm.HOME, 9)
        return np.vstack([up, rest[1:]])

    def _path_through(self, side: int, poses: Sequence[np.ndarray]) -> np.ndarray:
        """Return a path from the arm's targets through poses of the hand.

        Raises:
            Stuck: a pose can't be reached.
        """
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
        """Return the pose of the hand at the arm's targets, raised by `rise` metres."""
        pose = self._planners[side].hand(self._joints(side))
        pose[2, 3] += rise
        return pose

    def _closing_axis(self, side: int, point: np.ndarray, turn: np.ndarray) -> np.ndarray:
        """Return the horizontal axis of a box along which the fingers should close.

        It is the axis for which the hand turns least.

        Args:
            side: arm that grasps the box.
            point: centre of the box, m.
            turn: rotation matrix of the box, `[3, 3]`.
        """
        axes = [self._oriented(side, point, turn[:, column]) for column in (0, 1)]
        neutral = self._neutral_axis(side, point)
        return max(axes, key=lambda axis: float(axis @ neutral))

    def _oriented(self, side: int, point: np.ndarray, axis: np.ndarray) -> np.ndarray:
        """Return an axis or its opposite, whichever needs the smaller turn of the hand.

        The result is horizontal and has length 1.
        """
        horizontal = np.array([axis[0], axis[1], 0.0])
        horizontal /= np.linalg.norm(horizontal)
        return horizontal if horizontal @ self._neutral_axis(side, point) >= 0 else -horizontal

    def _neutral_axis(self, side: int, point: np.ndarray) -> np.ndarray:
        """Return the axis along which the fingers open while the last joint is at zero."""
        outwards = (point - arm.BASES[side])[:2]
        return np.array([-outwards[1], outwards[0], 0.0]) / np.linalg.norm(outwards)
