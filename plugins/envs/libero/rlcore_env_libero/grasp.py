"""Choose a grasp from above, in scenes made of boxes.

The fingers need room at both sides of the object, the hand above them needs room over neighbouring
objects, and a part of the object must be between the fingers. Height maps of the scene are enough
to check all three.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, pi

import mujoco
import numpy as np

# Height map: half its edge, and the distance between neighbouring points, in metres.
REACH = 0.19
GRID = 0.005
# Candidate offsets of the hand from the object's origin, along each axis, in metres; and candidate
# rotations of the hand, in radians.
PLACES = np.arange(-8, 9) / 100
TURNS = np.arange(-6, 6) * pi / 12
# Parts of the Panda's open gripper, relative to the point between the fingertips, in metres: range
# along the line between the fingers on both sides, and half the width across that line. Of the
# fingers, only the pads touch objects.
PADS = (0.035, 0.054), 0.014
BETWEEN = (0.0, 0.010), 0.008
HAND = (0.0, 0.112), 0.040
# Height of the hand's lower side above that point, and of that point above the pads' lower edge.
PALM = 0.026
TIP = 0.012
# Clearance below the fingertips, in metres; height of the object that the pads must cover, in
# metres; and the cost of a rotation by a radian, in metres of offset.
ROOM = 0.003
HOLD = 0.010
TURNING = 0.02


@dataclass(frozen=True)
class Grasp:
    """Pose of the hand in which it grips an object.

    Attributes:
        offset: horizontal offset of the point between the fingertips from the object's origin, in
            metres.
        turn: rotation of the hand about the vertical, in radians.
        lowest: lowest safe height of the point between the fingertips at the grasp, in metres.
        on_the_way: its lowest safe height on the way to the object, in metres.
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
    """Choose the feasible grasp with the least offset and rotation.

    The cost is the distance from the object's origin plus `TURNING` times the rotation.

    Args:
        model, data: the scene in its current state.
        thing: id of the object's root body.
        hand: position of the point between the fingertips, in metres, `[3]`.
        yaw: direction of the line between the fingers, in radians.
        depth: depth of the grip below the object's top if nothing is in the way, in metres.

    Returns:
        the best grasp; one at the object's origin without rotation if none is feasible.
    """
    root = model.body_rootid[model.geom_bodyid]
    touching = (model.geom_contype > 0) & (root != model.body("robot0_base").rootid[0])
    mine, rest = (np.flatnonzero(touching & side) for side in (root == thing, root != thing))
    origin = data.xpos[thing, :2]
    line = np.arange(-REACH, REACH + GRID / 2, GRID)
    points = origin + np.stack(np.meshgrid(line, line, indexing="ij"), axis=-1)
    own = heights(model, data, mine, points)
    others = heights(model, data, rest, points)
    places = np.stack(np.meshgrid(PLACES, PLACES, indexing="ij"), axis=-1).reshape(-1, 2)
    offset = np.zeros(2)
    chosen = 0.0
    lowest = float(others.min()) + TIP + ROOM
    least = inf
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
            least = cost[best]
            offset = places[best]
            chosen = float(turn)
            lowest = float(low[best])
    way = np.linspace(hand[:2], origin + offset, 12)[:, None]
    under_hand, under_pads = (
        max(heights(model, data, rest, way + _part(part, yaw + t)).max() for t in (0.0, chosen))
        for part in (HAND, PADS)
    )
    on_the_way = float(max(under_hand - PALM, under_pads + TIP) + ROOM)
    return Grasp((float(offset[0]), float(offset[1])), chosen, lowest, on_the_way)


def heights(
    model: mujoco.MjModel, data: mujoco.MjData, geoms: np.ndarray, points: np.ndarray
) -> np.ndarray:
    """Return the greatest height of some boxes and planes at horizontal points, in metres.

    Args:
        geoms: ids of the geoms. Planes must be horizontal, and all others are taken as boxes.
        points: `[..., 2]`, in metres.

    Returns:
        float64 `[...]`; minus infinity at points without any of the geoms.
    """
    highest = np.full(points.shape[:-1], -inf)
    for geom in geoms:
        at = data.geom_xpos[geom]
        axes = data.geom_xmat[geom].reshape(3, 3)
        if model.geom_type[geom] == mujoco.mjtGeom.mjGEOM_PLANE:
            np.maximum(highest, at[2], out=highest)
            continue
        # intersect the vertical line at each point with the slabs between opposite faces
        start = np.concatenate([points - at[:2], np.full((*points.shape[:-1], 1), -at[2])], -1)
        start = start @ axes
        along = axes[2]
        size = model.geom_size[geom]
        along = np.where(np.abs(along) < 1e-9, 1e-9, along)
        faces = np.stack([(-size - start) / along, (size - start) / along])
        enters = faces.min(axis=0).max(axis=-1)
        leaves = faces.max(axis=0).min(axis=-1)
        np.maximum(highest, np.where(enters <= leaves, leaves, -inf), out=highest)
    return highest


def _part(part: tuple[tuple[float, float], float], yaw: float) -> np.ndarray:
    """Return points under a part of the gripper, relative to its centre, in metres, `[K, 2]`.

    Args:
        part: range of the part along the line between the fingers, on both sides of the centre; and
            half its width across that line.
        yaw: direction of the line between the fingers, in radians.
    """
    (near, far), across = part
    steps = np.arange(near, far + GRID / 2, GRID)
    a, b = np.meshgrid(np.concatenate([-steps, steps]), np.linspace(-across, across, 7))
    line = np.array([np.cos(yaw), np.sin(yaw)])
    side = np.array([-np.sin(yaw), np.cos(yaw)])
    return np.asarray(a.reshape(-1, 1) * line + b.reshape(-1, 1) * side)


def _highest(surface: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Return the maxima `[N]` of a height map `[M, M]` over sets of points `[N, K, 2]`.

    Points are relative to the map's centre, in metres.
    """
    cells = np.rint((points + REACH) / GRID).astype(int).clip(0, len(surface) - 1)
    return np.asarray(surface[cells[..., 0], cells[..., 1]].max(axis=1))
