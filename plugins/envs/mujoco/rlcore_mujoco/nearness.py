"""How near cameras come to what they see, for the width of a pixel there.

It follows from the model as it was built, so that it is the same wherever a scene is drawn. Joints
are turned at random within their ranges: a geom is as near as in the nearest tenth of what a camera
sees of it then. A camera on a hand comes to other things as near as its own hand is in its view, as
that touches them. Free things come as near as the nearest of what moves in view.
"""

from __future__ import annotations

import mujoco
import numpy as np

from rlcore_mujoco.view import Camera

# Configurations that are looked at, points of a mesh that stand for it, and the share of views
# nearer than what counts.
CONFIGURATIONS = 64
POINTS = 256
NEARER = 0.1


def pixel_widths(model: mujoco.MjModel, camera: Camera, geoms: np.ndarray) -> np.ndarray:
    """The width of a pixel in metres where each geom is nearest to a camera, `[G]`.

    Args:
        model: as it was built.
        camera: that draws them.
        geoms: of meshes, numbers `[G]`.
    """
    number = model.camera(camera.name).id
    per_metre = 2 * np.tan(np.radians(model.cam_fovy[number]) / 2) / camera.height
    depths = _depths(model, number, geoms)
    seen = np.isfinite(depths).any(axis=0)
    near = np.full(len(geoms), np.inf)
    near[seen] = np.nanquantile(
        np.where(np.isfinite(depths), depths, np.nan)[:, seen], NEARER, axis=0
    )
    roots = model.body_rootid[model.geom_bodyid[geoms]]
    free = np.array([_is_free(model, root) for root in roots], dtype=bool)
    moves = (model.body_weldid[model.geom_bodyid[geoms]] != 0) & ~free
    own = model.body_rootid[model.cam_bodyid[number]]
    held = model.body_weldid[model.cam_bodyid[number]] != 0
    hand = moves & (roots == own) & held & seen
    if hand.any():
        near[~hand] = np.maximum(near[~hand], near[hand].min())
    movers = hand if hand.any() else moves & seen
    if movers.any():
        near[free] = near[movers].min()
    near[~np.isfinite(near)] = near[np.isfinite(near)].max(initial=model.stat.extent)
    return np.maximum(near, model.vis.map.znear * model.stat.extent) * per_metre


def _depths(model: mujoco.MjModel, camera: int, geoms: np.ndarray) -> np.ndarray:
    """How far in front of a camera the nearest point of each geom is that it sees, `[N, G]`;
    infinite where it sees none."""
    points = np.stack([_points(model, geom) for geom in geoms])  # [G, POINTS, 3]
    slope = np.tan(np.radians(model.cam_fovy[camera]) / 2)
    data = mujoco.MjData(model)
    low, high = model.jnt_range.T
    turns = model.jnt_type == mujoco.mjtJoint.mjJNT_HINGE.value
    slides = model.jnt_type == mujoco.mjtJoint.mjJNT_SLIDE.value
    limited = model.jnt_limited.astype(bool)
    low = np.where(limited, low, np.where(turns, -np.pi, 0.0))
    high = np.where(limited, high, np.where(turns, np.pi, 0.0))
    joints = np.nonzero(turns | slides)[0]
    random = np.random.default_rng(0)
    found = []
    for _ in range(CONFIGURATIONS):
        data.qpos[:] = model.qpos0
        data.qpos[model.jnt_qposadr[joints]] = random.uniform(low[joints], high[joints])
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        mujoco.mj_camlight(model, data)
        turned = data.geom_xmat[geoms].reshape(-1, 3, 3)
        world = np.einsum("gij,gpj->gpi", turned, points) + data.geom_xpos[geoms][:, None]
        seen = (world - data.cam_xpos[camera]) @ data.cam_xmat[camera].reshape(3, 3)
        depth = -seen[..., 2]
        inside = (np.abs(seen[..., :2]).max(axis=-1) < slope * depth) & (depth > 0)
        found.append(np.where(inside, depth, np.inf).min(axis=1))
    return np.array(found)


def _points(model: mujoco.MjModel, geom: int) -> np.ndarray:
    mesh = model.geom_dataid[geom]
    first, count = model.mesh_vertadr[mesh], model.mesh_vertnum[mesh]
    which = np.linspace(0, count - 1, POINTS).astype(int)
    points: np.ndarray = model.mesh_vert[first + which].astype(np.float64)
    return points


def _is_free(model: mujoco.MjModel, root: int) -> bool:
    first = model.body_jntadr[root]
    free: int = mujoco.mjtJoint.mjJNT_FREE.value
    return bool(first >= 0 and model.jnt_type[first] == free)
