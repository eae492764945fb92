"""Cache the static part of a fixed camera's image. Pixels do not change.

The cache holds an image of all static geoms and sites, with its depths. A frame then needs a render
pass over the moving ones only, and takes each pixel from the nearer of the two images. A geom is
static while its float32 position and rotation, as the renderer gets them, do not change by a bit.
The number of static geoms affects the cost of frames, but no pixel: if two surfaces have the same
depth to the bit, or if something is transparent, the whole frame is rendered.

The cached image is rendered again when one of its geoms moves. It is also rendered again when the
geoms that came to rest later, and are rendered in each frame until then, have cost as many faces as
a new image takes. So the cost is at most twice that of the best choice, in any order of events.
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
# Depth of the cached image's background. Depths grow towards the camera, and all surfaces are
# nearer than this. The background of the other pass has depth 0, so the two do not tie.
BEHIND_ALL = np.float32(1e-30)
# Arrays of a model on which frames depend, in addition to positions, lights, materials and cameras.
LOOKS = (
    *(f"geom_{field}" for field in ("type", "size", "rgba", "matid", "group", "dataid")),
    *(f"site_{field}" for field in ("type", "size", "rgba", "matid", "group")),
    *(f"vis.headlight.{field}" for field in ("ambient", "diffuse", "specular")),
    "vis.rgba.haze",
)
_numbers = attrgetter(
    "vis.headlight.active", "vis.map.znear", "vis.map.zfar", "vis.map.haze", "stat.extent"
)


class Still:
    """Renderer of a camera's frames that caches their static part, for each row.

    Args:
        model: a model of the scene.
        view: cameras and quality of the frames.
        camera: id of the camera.
        size: height and width of its frames, in pixels.
    """

    def __init__(
        self, model: mujoco.MjModel, view: View, camera: int, size: tuple[int, int]
    ) -> None:
        self._camera = camera
        self._size = size
        self._depth = np.empty(size, dtype=np.float32)
        self._usable = can_keep(model, view, camera)
        meshes = (model.geom_type == mujoco.mjtGeom.mjGEOM_MESH.value) & (model.geom_dataid >= 0)
        # a primitive has about 500 faces
        self._faces = np.full(model.ngeom + model.nsite, 500.0)
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
        """Render a frame into `pixels`.

        Args:
            model, data: model of the scene and its current state.
            row: identifies the row whose state it is. Geoms that did not move since the row's last
                frame are static.
            scene: scene to render, as it was just updated.
            update: updates the scene again, after geoms were removed from it.
            render: renders the scene into an array of pixels, and into one of depths if given.
            pixels: output, uint8 `[H, W, 3]`, with rows in the renderer's order.
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
            picture.shown = still
            picture.beside = 0.0
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
            flag = scene.flags[SKYBOX]
            scene.flags[SKYBOX] = 0
            render(pixels, self._depth)
            scene.flags[SKYBOX] = flag
            if not (self._depth == picture.depth).any():
                still_there = self._depth <= picture.depth
                np.copyto(_whole(pixels), _whole(picture.pixels), where=still_there)
                return
        update()
        render(pixels, None)


def can_keep(model: mujoco.MjModel, view: View, camera: int) -> bool:
    """Check whether a camera is fixed, and whether two render passes can be merged by depth."""
    return bool(
        model.body_weldid[model.cam_bodyid[camera]] == 0
        and model.cam_mode[camera] == mujoco.mjtCamLight.mjCAMLIGHT_FIXED.value
        # with antialiasing, mirrors or shadows a geom affects the pixels of others
        and not model.vis.quality.offsamples
        and not (view.reflection and model.mat_reflectance.any())
        and not model.light_castshadow.any()
        # transparent textures (RGBA)
        and not (model.tex_nchannel == 4).any()
        and not model.nskin
        and not model.nflex
    )


class _Picture:
    """Cached image of a row's static geoms and sites, and their positions in its last frame.

    Geoms come before sites: G + S in all.

    Attributes:
        model: model of the row's simulator.
        shown: which geoms and sites the image shows, bool `[G + S]`.
        beside: faces of other static geoms that were rendered since the image was made.
        pixels: the image, uint8 `[H, W, 3]`.
        depth: its depths, float32 `[H, W]`; larger is nearer.
    """

    def __init__(self, model: mujoco.MjModel, size: tuple[int, int]) -> None:
        self.model = model
        self.shown = np.zeros(model.ngeom + model.nsite, dtype=bool)
        self.beside = 0.0
        self.pixels = np.empty((*size, 3), dtype=np.uint8)
        self.depth = np.empty(size, dtype=np.float32)
        self._places = np.full((model.ngeom + model.nsite, 12), np.nan, dtype=np.float32)
        self._seen_by: tuple[object, ...] = ()
        # views on the model's arrays: making one costs more than reading it
        self._looks = [array_of(model, name) for name in (*LOOKS, *_looks_by_name(model))]

    def see(self, data: mujoco.MjData, camera: int) -> np.ndarray:
        """Return which geoms and sites did not move since the last call, bool `[G + S]`.

        None is static if the camera, a light or the look of the model changed.
        """
        places = np.empty_like(self._places)
        geoms = len(data.geom_xpos)
        places[:geoms, :3] = data.geom_xpos
        places[:geoms, 3:] = data.geom_xmat
        places[geoms:, :3] = data.site_xpos
        places[geoms:, 3:] = data.site_xmat
        eye = (data.cam_xpos[camera], data.cam_xmat[camera], data.light_xpos, data.light_xdir)
        seen_by = (b"".join(map(memoryview, (*eye, *self._looks))), *_numbers(self.model))
        still: np.ndarray = (places == self._places).all(axis=1)
        still &= seen_by == self._seen_by
        self._places = places
        self._seen_by = seen_by
        return still


def _looks_by_name(model: mujoco.MjModel) -> Iterator[str]:
    return (name for name in dir(model) if name.startswith(("light_", "mat_", "cam_")))


def _whole(pixels: np.ndarray) -> np.ndarray:
    """View pixels as `[H, W]` of 3 bytes each: masked copies are faster than with channels."""
    return pixels.view("V3")[..., 0]


def _leave_out(scene: mujoco.MjvScene, out: np.ndarray, first_site: int, *, others: bool) -> bool:
    """Remove geoms and sites from a scene, and everything that is fully transparent.

    Args:
        scene: scene to change; removed geoms get the type `mjGEOM_NONE`.
        out: which geoms and sites of the model to remove, bool `[G + S]`, geoms first.
        first_site: index of the first site in `out`.
        others: whether to remove all other objects, e.g. tendons.

    Returns:
        whether a remaining object is partly transparent.
    """
    geoms = scene.geoms
    leave = out.tolist()
    through = False
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
