"""What lies wholly outside of a camera's view, which need not be sent to be drawn. Same pixels."""

from __future__ import annotations

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
        if not self._bounded.any():
            return
        unseen = self._bounded & self._unseen(model, data, camera, aspect)
        if not unseen.any():
            return
        geoms = scene.geoms
        for number in range(scene.ngeom):
            geom = geoms[number]
            if geom.objtype == GEOM and unseen[geom.objid]:
                geom.type = NOTHING

    def _unseen(
        self, model: mujoco.MjModel, data: mujoco.MjData, camera: int, aspect: float
    ) -> np.ndarray:
        """Whether the sphere around each geom is behind the camera, or beside its view."""
        turned = data.cam_xmat[camera].reshape(3, 3)
        right, up, back = ((data.geom_xpos - data.cam_xpos[camera]) @ turned).T
        radius = model.geom_rbound * SLACK
        slope = np.tan(np.radians(model.cam_fovy[camera]) / 2)
        unseen: np.ndarray = back > radius
        for across, reach in ((np.abs(up), slope), (np.abs(right), slope * aspect)):
            unseen |= across + reach * back > radius * np.hypot(1.0, reach)
        return unseen
