"""Frustum culling: skip geoms that are wholly outside of a camera's view. Pixels do not change."""

from __future__ import annotations

import functools

import mujoco
import numpy as np

from rlcore_mujoco.view import View

NOTHING = mujoco.mjtGeom.mjGEOM_NONE.value
# factor on the radius of bounding spheres, for the rounding errors of the renderer's float32
SLACK = 1.001
GEOM = mujoco.mjtObj.mjOBJ_GEOM.value


class Outside:
    """Frustum culling for one scene.

    If the scene has shadows or mirrors, no geom is removed, because a geom outside of the view may
    be visible by its shadow or in a mirror.

    Args:
        model: a model of the scene.
        view: cameras and quality of the frames.
    """

    def __init__(self, model: mujoco.MjModel, view: View) -> None:
        mirrors = view.reflection and bool(model.mat_reflectance.any())
        shadows = bool(model.light_castshadow.any())
        # planes have no bounding sphere (radius 0), and may be infinite
        self._bounded = model.geom_rbound > 0
        if mirrors or shadows:
            self._bounded[:] = False

    def leave_out(
        self,
        model: mujoco.MjModel,
        data: mujoco.MjData,
        camera: int,
        aspect: float,
        scene: mujoco.MjvScene,
    ) -> None:
        """Remove the geoms that a camera can't see from a scene that was just updated.

        Args:
            model: model of the scene.
            data: state from which the scene was updated.
            camera: id of the camera.
            aspect: width of the camera's frame divided by its height.
            scene: scene to change; removed geoms get the type `mjGEOM_NONE`.
        """
        if not self._bounded.any() or scene.camera[0].orthographic:
            return
        unseen = self._bounded & self._unseen(model, data, camera, aspect, scene.camera[0])
        if not unseen.any():
            return
        geoms = scene.geoms
        out = unseen.tolist()
        for number in range(scene.ngeom):
            geom = geoms[number]
            if geom.objtype == GEOM and out[geom.objid]:
                geom.type = NOTHING

    def _unseen(
        self,
        model: mujoco.MjModel,
        data: mujoco.MjData,
        camera: int,
        aspect: float,
        lens: mujoco.MjvGLCamera,
    ) -> np.ndarray:
        """Check which geoms have a bounding sphere wholly outside of the frustum, bool `[G]`."""
        bottom = lens.frustum_bottom
        top = lens.frustum_top
        # frustum_width is 0 unless the camera sets it; then the aspect ratio determines the width
        half = lens.frustum_width or aspect * (top - bottom) / 2
        left = lens.frustum_center - half
        right = lens.frustum_center + half
        planes = _planes(lens.frustum_near, left, right, bottom, top)
        turned = data.cam_xmat[camera].reshape(3, 3) @ planes
        beyond = (data.geom_xpos - data.cam_xpos[camera]) @ turned
        unseen: np.ndarray = (beyond > SLACK * model.geom_rbound[:, None]).any(axis=1)
        return unseen


@functools.lru_cache
def _planes(near: float, left: float, right: float, bottom: float, top: float) -> np.ndarray:
    """Return the outward unit normals of the planes around a frustum, `[3, 5]`.

    The five planes are right, left, top, bottom and behind the camera. Normals are in camera
    coordinates: x to the right, y up, z backwards.

    Args:
        near: distance from the camera at which the other arguments are measured.
        left, right, bottom, top: edges of the view at that distance.
    """
    planes: np.ndarray = np.array(
        [[near, 0, right], [-near, 0, -left], [0, near, top], [0, -near, -bottom], [0, 0, 1]]
    )
    return planes.T / np.linalg.norm(planes, axis=1)
