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

from collections.abc import Callable, Iterator
from operator import attrgetter
from weakref import WeakKeyDictionary

import mujoco
import numpy as np

from rlcore_mujoco.frustum import GEOM, NOTHING
from rlcore_mujoco.model import array_of
from rlcore_mujoco.view import View

SKYBOX = mujoco.mjtRndFlag.mjRND_SKYBOX.value
SITE = mujoco.mjtObj.mjOBJ_SITE.value
# The depth where a picture shows nothing. All that is drawn is nearer, and another pass that shows
# nothing there has 0, which is no tie.
BEHIND_ALL = np.float32(1e-30)
# What frames depend on beside places, lights, materials and cameras: arrays and numbers of a model.
LOOKS = (
    *(f"geom_{what}" for what in ("type", "size", "rgba", "matid", "group", "dataid")),
    *(f"site_{what}" for what in ("type", "size", "rgba", "matid", "group")),
    *(f"vis.headlight.{what}" for what in ("ambient", "diffuse", "specular")),
    "vis.rgba.haze",
)
_numbers = attrgetter(
    "vis.headlight.active", "vis.map.znear", "vis.map.zfar", "vis.map.haze", "stat.extent"
)


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
        self._faces = np.full(model.ngeom + model.nsite, 500.0)  # of a primitive, about
        self._faces[: model.ngeom][meshes] = model.mesh_facenum[model.geom_dataid[meshes]]
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
        if not self._usable:
            render(pixels, None)
            return
        picture = self._pictures.get(row)
        if picture is None or picture.model is not model:
            picture = self._pictures[row] = _Picture(model, self._size)
        still = picture.see(data, self._camera)
        picture.beside += self._faces[still & ~picture.shown].sum()
        if (picture.shown & ~still).any() or picture.beside >= self._faces[still].sum():
            picture.shown, picture.beside = still, 0.0
            if still.any():
                if _leave_out(scene, ~still, model.ngeom, others=True):
                    picture.shown = np.zeros_like(still)
                else:
                    render(picture.pixels, picture.depth)
                    np.maximum(picture.depth, BEHIND_ALL, out=picture.depth)
                update()
        if not picture.shown.any():
            render(pixels, None)
            return
        if not _leave_out(scene, picture.shown, model.ngeom, others=False):
            scene.flags[SKYBOX], flag = 0, scene.flags[SKYBOX]
            render(pixels, self._depth)
            scene.flags[SKYBOX] = flag
            if not (self._depth == picture.depth).any():
                still_there = self._depth <= picture.depth
                np.copyto(_whole(pixels), _whole(picture.pixels), where=still_there)
                return
        update()
        render(pixels, None)


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

    def __init__(self, model: mujoco.MjModel, size: tuple[int, int]) -> None:
        self.model = model
        self.shown = np.zeros(model.ngeom + model.nsite, dtype=bool)
        self.beside = 0.0
        self.pixels = np.empty((*size, 3), dtype=np.uint8)
        self.depth = np.empty(size, dtype=np.float32)
        self._places = np.full((model.ngeom + model.nsite, 12), np.nan, dtype=np.float32)
        self._seen_by: tuple[object, ...] = ()
        # views, which cost more to be made than to be read
        self._looks = [array_of(model, name) for name in (*LOOKS, *_looks_by_name(model))]

    def see(self, data: mujoco.MjData, camera: int) -> np.ndarray:
        """Which geoms and sites stood still since the last frame of a camera, `[G + S]`."""
        places = np.empty_like(self._places)
        geoms = len(data.geom_xpos)
        places[:geoms, :3], places[:geoms, 3:] = data.geom_xpos, data.geom_xmat
        places[geoms:, :3], places[geoms:, 3:] = data.site_xpos, data.site_xmat
        eye = (data.cam_xpos[camera], data.cam_xmat[camera], data.light_xpos, data.light_xdir)
        seen_by = (b"".join(map(memoryview, (*eye, *self._looks))), *_numbers(self.model))
        still: np.ndarray = (places == self._places).all(axis=1)
        still &= seen_by == self._seen_by
        self._places, self._seen_by = places, seen_by
        return still


def _looks_by_name(model: mujoco.MjModel) -> Iterator[str]:
    return (name for name in dir(model) if name.startswith(("light_", "mat_", "cam_")))


def _whole(pixels: np.ndarray) -> np.ndarray:
    """Pixels `[H, W]` instead of their colours; a mask of pixels is quicker than one of colours."""
    return pixels.view("V3")[..., 0]


def _leave_out(scene: mujoco.MjvScene, out: np.ndarray, first_site: int, *, others: bool) -> bool:
    """Leave out some geoms and sites, and on demand what is neither; and what has no colour at all.

    Args:
        scene: to be drawn.
        out: of geoms and then sites of the model, `[G + S]`.
        first_site: its number among them.
        others: whether to leave out tendons and the like.

    Returns:
        Whether something of the rest can be seen through.
    """
    geoms, leave, through = scene.geoms, out.tolist(), False
    for number in range(scene.ngeom):
        geom = geoms[number]
        kind = geom.objtype
        if kind == GEOM:
            leaves = leave[geom.objid]
        elif kind == SITE:
            leaves = leave[first_site + geom.objid]
        else:
            leaves = others
        alpha = 0.0 if leaves else geom.rgba.item(3)
        if alpha <= 0:
            geom.type = NOTHING
        elif alpha < 1 and geom.type != NOTHING:
            through = True
    return through
