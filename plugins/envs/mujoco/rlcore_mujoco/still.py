"""What stands still in front of a camera that does, drawn once. Same pixels.

A picture of all that stands still is kept, with its depths. Then a frame takes a pass over what
moves, and each of its pixels is of the nearer one. Things stand still while the numbers that the
renderer gets of them, float32, keep their bits. How many of them do changes what frames cost, and
no pixel: where surfaces of both are at the same depth to the bit, the frame is drawn whole, as it
is where something can be seen through.

A picture is made anew when one of its things moves, or once the faces that were drawn beside it,
of things that came to rest later, add up to those that it takes: no order of events costs more
than twice what the best choice would have.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from weakref import WeakKeyDictionary

import mujoco
import numpy as np

from rlcore_mujoco.frustum import GEOM, NOTHING
from rlcore_mujoco.view import View

SKYBOX = mujoco.mjtRndFlag.mjRND_SKYBOX.value


class Still:
    """Draws what moves over what stands still, for a camera.

    Args:
        model: a model of the scene.
        view: of its frames.
        camera: its number.
        size: height and width of its frames, in pixels.
    """

    def __init__(
        self, model: mujoco.MjModel, view: View, camera: int, size: tuple[int, int]
    ) -> None:
        self._camera, self._size = camera, size
        self._depth = np.empty(size, dtype=np.float32)
        self._usable = can_keep(model, view, camera)
        meshes = (model.geom_type == mujoco.mjtGeom.mjGEOM_MESH.value) & (model.geom_dataid >= 0)
        self._faces = np.full(model.ngeom, 50.0)  # of a primitive, about
        self._faces[meshes] = model.mesh_facenum[model.geom_dataid[meshes]]
        names = [f"geom_{what}" for what in ("type", "size", "rgba", "matid", "group", "dataid")]
        names += [name for name in dir(model) if name.startswith(("light_", "mat_", "cam_"))]
        headlight = ("active", "ambient", "diffuse", "specular")
        names += [f"vis.headlight.{what}" for what in headlight]
        names += ["vis.map.znear", "vis.map.zfar", "vis.map.haze", "vis.rgba.haze", "stat.extent"]
        self._looks = attrgetter(*names)
        self._pictures: WeakKeyDictionary[object, _Picture] = WeakKeyDictionary()

    def draw(
        self,
        model: mujoco.MjModel,
        data: mujoco.MjData,
        row: object,
        scene: mujoco.MjvScene,
        update: Callable[[], None],
        render: Callable[[np.ndarray, np.ndarray | None], None],
        pixels: np.ndarray,
    ) -> None:
        """Draw a frame.

        Args:
            model, data: of the scene, in their present state.
            row: whose state it is; what stood still in its last frame is looked for.
            scene: to be drawn; as it was updated.
            update: updates it again.
            render: draws it into pixels, and depths where they are asked for.
            pixels: uint8 `[H, W, 3]`, as the renderer has them.
        """
        if not self._usable or _mixes(scene):
            render(pixels, None)
            return
        if row not in self._pictures:
            self._pictures[row] = _Picture(model.ngeom, self._size)
        picture = self._pictures[row]
        still = picture.see(self._places(model, data), self._seen_by(model, data))
        picture.beside += self._faces[still & ~picture.shown].sum()
        if (picture.shown & ~still).any() or picture.beside >= self._faces[still].sum():
            if still.any():
                _leave_out(scene, ~still, others=True)
                render(picture.pixels, picture.depth)
                update()
            picture.shown, picture.beside = still, 0.0
        if not picture.shown.any():
            render(pixels, None)
            return
        _leave_out(scene, picture.shown)
        scene.flags[SKYBOX], flag = 0, scene.flags[SKYBOX]
        render(pixels, self._depth)
        scene.flags[SKYBOX] = flag
        if ((self._depth == picture.depth) & (self._depth > 0)).any():
            update()
            render(pixels, None)
            return
        np.copyto(pixels, picture.pixels, where=(self._depth <= picture.depth)[..., None])

    def _places(self, model: mujoco.MjModel, data: mujoco.MjData) -> np.ndarray:
        """Where geoms are, float32 `[G, 12]`."""
        return np.concatenate([data.geom_xpos, data.geom_xmat], axis=1, dtype=np.float32)

    def _seen_by(self, model: mujoco.MjModel, data: mujoco.MjData) -> bytes:
        """All else that frames depend on: the camera, lights and looks."""
        at = self._camera
        places = (data.cam_xpos[at], data.cam_xmat[at], data.light_xpos, data.light_xdir)
        return b"".join(np.asarray(each).tobytes() for each in (*places, *self._looks(model)))


def can_keep(model: mujoco.MjModel, view: View, camera: int) -> bool:
    """Whether a camera stands still, and frames can be put together from what is drawn apart."""
    return bool(
        model.body_weldid[model.cam_bodyid[camera]] == 0
        and model.cam_mode[camera] == mujoco.mjtCamLight.mjCAMLIGHT_FIXED.value
        # by edges that are averaged, mirrors and shadows one thing shows on another
        and not model.vis.quality.offsamples
        and not (view.reflection and model.mat_reflectance.any())
        and not model.light_castshadow.any()
        # textures that can be seen through
        and not (model.tex_nchannel == 4).any()
        and not model.nskin
        and not model.nflex
    )


class _Picture:
    """Of a row: what stood still, and where everything was in its last frame."""

    def __init__(self, geoms: int, size: tuple[int, int]) -> None:
        self.shown = np.zeros(geoms, dtype=bool)
        self.beside = 0.0
        self.pixels = np.empty((*size, 3), dtype=np.uint8)
        self.depth = np.empty(size, dtype=np.float32)
        self._places = np.full((geoms, 12), np.nan, dtype=np.float32)
        self._seen_by = b""

    def see(self, places: np.ndarray, seen_by: bytes) -> np.ndarray:
        """Which geoms stood still since the last frame, `[G]`."""
        still: np.ndarray = (places == self._places).all(axis=1)
        still &= seen_by == self._seen_by
        self._places, self._seen_by = places, seen_by
        return still


def _mixes(scene: mujoco.MjvScene) -> bool:
    """Whether something can be seen through. What is wholly transparent is left out."""
    geoms = scene.geoms
    for number in range(scene.ngeom):
        alpha = geoms[number].rgba[3]
        if alpha <= 0:
            geoms[number].type = NOTHING
        elif alpha < 1 and geoms[number].type != NOTHING:
            return True
    return False


def _leave_out(scene: mujoco.MjvScene, geoms_out: np.ndarray, *, others: bool = False) -> None:
    """Leave out some geoms of a model, and on demand what isn't one, such as sites."""
    geoms, out = scene.geoms, geoms_out.tolist()
    for number in range(scene.ngeom):
        geom = geoms[number]
        if out[geom.objid] if geom.objtype == GEOM else others:
            geom.type = NOTHING
