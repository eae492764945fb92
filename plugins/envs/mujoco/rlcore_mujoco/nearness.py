"""Estimate the nearest distances of cameras to the geoms of a scene, and the faces in view.

The estimates depend only on the model as it was compiled, so they are the same in all processes
that render a scene. The number of triangles of a simplified mesh depends on the width of a pixel
where a camera comes nearest to the mesh, and on which faces the camera sees. Both are estimated
over random joint positions. The simplified surface is at most half a pixel (root mean square around
each point) from the exact one, for a camera distance that only the nearest 10% of sampled positions
go below. Free bodies are assumed to come as near as the nearest moving geom in view, and to be seen
from all sides.

The estimates hold for fixed cameras only. A camera on a hand comes as near to objects as the hand
itself, in poses that controllers prefer and random joint positions rarely reach. Such a camera gets
no estimate, and exact meshes.
"""

from __future__ import annotations

import zlib
from typing import NamedTuple

import mujoco
import numpy as np

from rlcore_mujoco.view import Camera

# Number of sampled joint configurations, number of sampled vertices of each mesh, and the fraction
# of configurations whose distances are below the estimate.
CONFIGURATIONS = 64
POINTS = 256
NEARER = 0.1
# Number of those configurations in which the visibility of faces is estimated.
LOOKS = 16
# Least weight of a face, so that faces which no sampled configuration shows keep some detail; and
# the ratio of successive weights. Weights are rounded to powers of that ratio, so that rounding
# errors do not change the mesh.
LEAST = 0.02
RATIO = 2.0


class _Pose(NamedTuple):
    """Positions and rotation matrices of a camera and of G geoms, in the world frame.

    Attributes:
        camera: position of the camera, `[3]`.
        camera_turned: rotation matrix of the camera, `[3, 3]`.
        geoms: positions of the geoms, `[G, 3]`.
        geoms_turned: rotation matrices of the geoms, `[G, 3, 3]`.
    """

    camera: np.ndarray
    camera_turned: np.ndarray
    geoms: np.ndarray
    geoms_turned: np.ndarray


class Sight:
    """Estimate of how a camera sees mesh geoms.

    Args:
        model: model as it was compiled.
        camera: fixed camera, see :func:`camera_at_rest`.
        geoms: ids of the geoms, `[G]`.

    Attributes:
        near: distance in metres along the view at which each geom is nearest, `[G]`.
        widths: width of a pixel in metres at that distance, `[G]`.
    """

    def __init__(self, model: mujoco.MjModel, camera: Camera, geoms: np.ndarray) -> None:
        self._model = model
        self._geoms = list(geoms)
        number = model.camera(camera.name).id
        self._slope = np.tan(np.radians(model.cam_fovy[number]) / 2)
        self._aspect = camera.width / camera.height
        self._poses = _poses(model, number, geoms)
        root = model.body_rootid[model.geom_bodyid[geoms]]
        self._free = np.array([_is_free(model, body) for body in root], dtype=bool)
        near = self._nearest()
        moves = ~at_rest(model, geoms) & ~self._free
        movers = moves & np.isfinite(near)
        if movers.any():
            near[self._free] = near[movers].min()
        unseen = ~np.isfinite(near)
        near[unseen] = near[~unseen].max(initial=0.0) or model.stat.extent
        self.near = np.maximum(near, model.vis.map.znear * model.stat.extent)
        self.widths = self.near * 2 * self._slope / camera.height

    def _nearest(self) -> np.ndarray:
        """Return the distance of each geom's nearest visible point, `[G]`; inf if never in view.

        It is the `NEARER` quantile over the configurations in which the geom is in view.
        """
        points = np.stack([_points(self._model, geom) for geom in self._geoms])
        distances = []
        for pose in self._poses:
            world = np.einsum("gij,gpj->gpi", pose.geoms_turned, points) + pose.geoms[:, None]
            depth, inside = self._in_view(pose, world)
            distances.append(np.where(inside, depth, np.inf).min(axis=1))
        depths = np.array(distances)
        ordered = np.sort(depths, axis=0)  # configurations without the geom in view (inf) are last
        times = np.isfinite(depths).sum(axis=0)
        nearest: np.ndarray = ordered[(NEARER * times).astype(int), np.arange(len(times))]
        return nearest

    def _in_view(self, pose: _Pose, world: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return depths of points `[..., 3]`, and whether they are in the frame (bool)."""
        place = (world - pose.camera) @ pose.camera_turned
        depth = -place[..., 2]
        inside = np.abs(place[..., 1]) < self._slope * depth
        inside &= np.abs(place[..., 0]) < self._slope * self._aspect * depth
        return depth, inside

    def seen(self, geom: int) -> np.ndarray:
        """Return the mean visible area of each face of a geom, relative to its largest, `[F]`.

        The weight (float32) is 1 for a face that is perpendicular to the line of sight at the
        geom's nearest distance. It is `LEAST` or more, rounded to a power of `RATIO`.
        """
        model = self._model
        index = self._geoms.index(geom)
        mesh = model.geom_dataid[geom]
        first = model.mesh_faceadr[mesh]
        faces = model.mesh_face[first : first + model.mesh_facenum[mesh]]
        points = model.mesh_vert[model.mesh_vertadr[mesh] :][: model.mesh_vertnum[mesh]]
        if self._free[index]:
            # mean of max(cos, 0) over all directions
            return np.full(len(faces), _rounded_weight(0.25), dtype=np.float32)
        a, b, c = np.moveaxis(points[faces], 1, 0)
        normals = np.cross(b - a, c - a)
        normals /= np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-30)
        middles = (a + b + c) / 3
        total = np.zeros(len(faces), dtype=np.float32)
        for pose in self._poses[:: CONFIGURATIONS // LOOKS]:
            turned = pose.geoms_turned[index]
            place = pose.geoms[index]
            # transform the camera into the geom's frame: cheaper than transforming all faces
            eye = ((pose.camera - place) @ turned).astype(np.float32)
            to_camera = eye - middles
            distance = np.linalg.norm(to_camera, axis=1)
            facing = np.einsum("ij,ij->i", to_camera, normals) / np.maximum(distance, 1e-12)
            towards = -to_camera @ (turned.T @ pose.camera_turned).astype(np.float32)
            depth = -towards[:, 2]
            inside = np.abs(towards[:, 1]) < self._slope * depth * 1.1
            inside &= np.abs(towards[:, 0]) < self._slope * self._aspect * depth * 1.1
            scale = np.minimum(1.0, (self.near[index] / np.maximum(depth, 1e-12)) ** 2)
            total += np.where(inside, np.maximum(facing, 0.0) * scale, 0.0)
        return _rounded_weight(total / LOOKS).astype(np.float32)


def _rounded_weight(area: np.ndarray | float) -> np.ndarray:
    steps: np.ndarray = RATIO ** np.round(np.log(np.maximum(area, LEAST)) / np.log(RATIO))
    return steps


def _poses(model: mujoco.MjModel, camera: int, geoms: np.ndarray) -> list[_Pose]:
    """Return the poses of a camera and of geoms in `CONFIGURATIONS` random configurations.

    Hinge and slide joints are drawn uniformly from their range. The seed of a joint is a checksum
    of its name, so that an arm takes the same configurations in all scenes.
    """
    data = mujoco.MjData(model)
    turns = model.jnt_type == mujoco.mjtJoint.mjJNT_HINGE.value
    slides = model.jnt_type == mujoco.mjtJoint.mjJNT_SLIDE.value
    places = np.tile(model.qpos0, (CONFIGURATIONS, 1))
    for joint in np.nonzero(turns | slides)[0]:
        low, high = (-np.pi, np.pi) if turns[joint] else (0.0, 0.0)
        if model.jnt_limited[joint]:
            low, high = model.jnt_range[joint]
        random = np.random.default_rng(zlib.crc32(model.joint(joint).name.encode()))
        places[:, model.jnt_qposadr[joint]] = random.uniform(low, high, CONFIGURATIONS)
    poses = []
    for data.qpos[:] in places:
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        mujoco.mj_camlight(model, data)
        poses.append(
            _Pose(
                data.cam_xpos[camera].copy(),
                data.cam_xmat[camera].reshape(3, 3).copy(),
                data.geom_xpos[geoms].copy(),
                data.geom_xmat[geoms].reshape(-1, 3, 3).copy(),
            )
        )
    return poses


def _points(model: mujoco.MjModel, geom: int) -> np.ndarray:
    mesh = model.geom_dataid[geom]
    first = model.mesh_vertadr[mesh]
    count = model.mesh_vertnum[mesh]
    indices = np.linspace(0, count - 1, POINTS).astype(int)
    points: np.ndarray = model.mesh_vert[first + indices].astype(np.float64)
    return points


def camera_at_rest(model: mujoco.MjModel, camera: Camera) -> bool:
    """Check whether a camera is fixed in the world, and tracks no body."""
    number = model.camera(camera.name).id
    body = model.cam_bodyid[number]
    fixed = model.cam_mode[number] == mujoco.mjtCamLight.mjCAMLIGHT_FIXED.value
    attached = model.body_weldid[body] != 0 or model.body_mocapid[model.body_rootid[body]] >= 0
    return bool(fixed and not attached)


def at_rest(model: mujoco.MjModel, geoms: np.ndarray) -> np.ndarray:
    """Check which geoms are fixed in the world, bool `[G]`.

    A simulator may still move their bodies between episodes.
    """
    bodies = model.geom_bodyid[geoms]
    fixed: np.ndarray = model.body_weldid[bodies] == 0
    return fixed & (model.body_mocapid[model.body_rootid[bodies]] < 0)


def _is_free(model: mujoco.MjModel, root: int) -> bool:
    first = model.body_jntadr[root]
    free: int = mujoco.mjtJoint.mjJNT_FREE.value
    return bool(first >= 0 and model.jnt_type[first] == free)
