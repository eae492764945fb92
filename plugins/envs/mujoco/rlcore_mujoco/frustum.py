"""What lies wholly outside of a camera's view, which need not be sent to be drawn. Same pixels."""

from __future__ import annotations

import functools

import mujoco
import numpy as np

from rlcore_mujoco.view import View

NOTHING = mujoco.mjtGeom.mjGEOM_NONE.value
# spheres are that much larger, for the last bits of the renderer's float32
SLACK = 1.001
GEOM = mujoco.mjtObj.mjOBJ_GEOM.value


class Outside:
    """Leaves out geoms that a camera can't see.

    Nothing is left out where it might show by its shadow or in a mirror.

    Args:
        model: a model of the scene.
        view: of its frames.
    """

    def __init__(self, model: mujoco.MjModel, view: View) -> None:
        mirrors = view.reflection and bool(model.mat_reflectance.any())
        shadows = bool(model.light_castshadow.any())
        # planes have no bounds, and may be infinite
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
        """Leave out of a scene that was just updated what a camera can't see.

        Args:
            model: of the scene.
            data: what it was updated from.
            camera: its number.
            aspect: width of its frame over height.
            scene: to be drawn.
        """
        if not self._bounded.any() or scene.camera[0].orthographic:
            return
        unseen = self._bounded & self._unseen(model, data, camera, aspect, scene.camera[0])
        if not unseen.any():
            return
        geoms, out = scene.geoms, unseen.tolist()
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
        """Whether the sphere around each geom is behind the camera, or beside its view."""
        bottom, top = lens.frustum_bottom, lens.frustum_top
        # without a width of its own, a view is as wide as its frame
        half = lens.frustum_width or aspect * (top - bottom) / 2
        left, right = lens.frustum_center - half, lens.frustum_center + half
        planes = _planes(lens.frustum_near, left, right, bottom, top)
        turned = data.cam_xmat[camera].reshape(3, 3) @ planes
        beyond = (data.geom_xpos - data.cam_xpos[camera]) @ turned
        unseen: np.ndarray = (beyond > SLACK * model.geom_rbound[:, None]).any(axis=1)
        return unseen


@functools.lru_cache
def _planes(near: float, left: float, right: float, bottom: float, top: float) -> np.ndarray:
    """Outward normals of the planes around a view that has these edges at a depth, `[3, 5]`:
    to its camera's right, up, and back."""
    planes: np.ndarray = np.array(
        [[near, 0, right], [-near, 0, -left], [0, near, top], [0, -near, -bottom], [0, 0, 1]]
    )
    return planes.T / np.linalg.norm(planes, axis=1)
