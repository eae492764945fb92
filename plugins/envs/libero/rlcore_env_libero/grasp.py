"""Where a gripper that comes from above can take hold of a thing, on scenes made of boxes.

Fingers need room beside the thing, the hand above them needs room over its neighbours, and between
the fingers must be something to hold. All of this shows in how high the scene is at each point.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, pi

import mujoco
import numpy as np

# The map: half its edge, and from point to point, in metres.
REACH, GRID = 0.19, 0.005
# Where the hand may be, from the thing's origin, in metres; and how far it may turn, in radians.
PLACES = np.arange(-8, 9) / 100
TURNS = np.arange(-6, 6) * pi / 12
# The Panda's gripper, open, seen from the point between the fingertips, in metres: along the line
# between the fingers and across it. Only the pads of its fingers touch anything.
PADS = (0.035, 0.054), 0.014
BETWEEN = (0.0, 0.010), 0.008
HAND = (0.0, 0.112), 0.040
# Heights of the hand's lower side above that point, and of the point above the pads' lower edge.
PALM, TIP = 0.026, 0.012
# Room below the fingertips; how much of the thing the pads must cover; and how much worse a turn by
# a radian is than a metre beside the middle.
ROOM, HOLD, TURNING = 0.003, 0.010, 0.02


@dataclass(frozen=True)
class Grasp:
    """Attributes:
    offset: of the point between the fingertips from the thing's origin, horizontal, in metres.
    turn: of the hand about the vertical, in radians.
    lowest: height that this point must not go below, in metres.
    on_the_way: the same, until it is over the thing.
    """

    offset: tuple[float, float]
    turn: float
    lowest: float
    on_the_way: float


def choose(
    model: mujoco.MjModel,
    data: mujoco.MjData,
    thing: int,
    *,
    hand: np.ndarray,
    yaw: float,
    depth: float,
) -> Grasp:
    """The grasp that has room, nearest to the thing's middle, and turning the hand little.

    Args:
        thing: root body.
        hand: where the point between the fingertips is, in metres `[3]`.
        yaw: direction of the line between the fingers, in radians.
        depth: how far below the thing's top to grip, if nothing is in the way.

    Returns:
        the one over the middle, if none has room.
    """
    root = model.body_rootid[model.geom_bodyid]
    touching = (model.geom_contype > 0) & (root != model.body("robot0_base").rootid[0])
    mine, rest = (np.flatnonzero(touching & side) for side in (root == thing, root != thing))
    origin = data.xpos[thing, :2]
    line = np.arange(-REACH, REACH + GRID / 2, GRID)
    points = origin + np.stack(np.meshgrid(line, line, indexing="ij"), axis=-1)
    own, others = heights(model, data, mine, points), heights(model, data, rest, points)
    places = np.stack(np.meshgrid(PLACES, PLACES, indexing="ij"), axis=-1).reshape(-1, 2)
    offset, chosen, lowest, least = np.zeros(2), 0.0, float(others.min()) + TIP + ROOM, inf
    for turn in TURNS:
        pads, held, under = (
            _highest(surface, places[:, None] + _part(part, yaw + turn))
            for surface, part in ((np.maximum(own, others), PADS), (own, BETWEEN), (others, HAND))
        )
        low = np.maximum(pads + TIP, under - PALM) + ROOM
        cost = np.linalg.norm(places, axis=1) + TURNING * abs(turn)
        cost[held < np.maximum(own.max() - depth, low) - TIP + HOLD] = inf
        best = int(cost.argmin())
        if cost[best] < least:
            least, offset, chosen, lowest = cost[best], places[best], float(turn), float(low[best])
    way = np.linspace(hand[:2], origin + offset, 12)[:, None]
    under, beside = (
        max(heights(model, data, rest, way + _part(part, yaw + t)).max() for t in (0.0, chosen))
        for part in (HAND, PADS)
    )
    on_the_way = float(max(under - PALM, beside + TIP) + ROOM)
    return Grasp((float(offset[0]), float(offset[1])), chosen, lowest, on_the_way)


def heights(
    model: mujoco.MjModel, data: mujoco.MjData, geoms: np.ndarray, points: np.ndarray
) -> np.ndarray:
    """How high some boxes and planes reach at points `[..., 2]`, in metres: `[...]`, minus infinity
    where there is none of them. Planes are horizontal."""
    highest = np.full(points.shape[:-1], -inf)
    for geom in geoms:
        at, axes = data.geom_xpos[geom], data.geom_xmat[geom].reshape(3, 3)
        if model.geom_type[geom] == mujoco.mjtGeom.mjGEOM_PLANE:
            np.maximum(highest, at[2], out=highest)
            continue
        # a vertical line enters and leaves each pair of the box's faces
        start = np.concatenate([points - at[:2], np.full((*points.shape[:-1], 1), -at[2])], -1)
        start, along, size = start @ axes, axes[2], model.geom_size[geom]
        along = np.where(np.abs(along) < 1e-9, 1e-9, along)
        faces = np.stack([(-size - start) / along, (size - start) / along])
        enters, leaves = faces.min(axis=0).max(axis=-1), faces.max(axis=0).min(axis=-1)
        np.maximum(highest, np.where(enters <= leaves, leaves, -inf), out=highest)
    return highest


def _part(part: tuple[tuple[float, float], float], yaw: float) -> np.ndarray:
    """Points under a part of the gripper, from the point between the fingertips: `[K, 2]`.

    Args:
        part: from where to where it reaches, on both sides, on the line between the fingers; and
            how far beside that line.
        yaw: direction of the line, in radians.
    """
    (near, far), across = part
    steps = np.arange(near, far + GRID / 2, GRID)
    a, b = np.meshgrid(np.concatenate([-steps, steps]), np.linspace(-across, across, 7))
    line, side = np.array([np.cos(yaw), np.sin(yaw)]), np.array([-np.sin(yaw), np.cos(yaw)])
    return np.asarray(a.reshape(-1, 1) * line + b.reshape(-1, 1) * side)


def _highest(surface: np.ndarray, points: np.ndarray) -> np.ndarray:
    """The highest point of a map `[M, M]` among `points` `[N, K, 2]` around its middle: `[N]`."""
    cells = np.rint((points + REACH) / GRID).astype(int).clip(0, len(surface) - 1)
    return np.asarray(surface[cells[..., 0], cells[..., 1]].max(axis=1))
