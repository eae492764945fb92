"""Frames of MuJoCo scenes, one GL context per process.

Gymnasium gives every env a GL context of its own, and closing one env drops the context that is
current, after which all other envs of the process render black without an error. Here the process
has one context that is never dropped, and it is made current before every frame, whatever else
uses GL in the process. Knows no task, no reward and no process.
"""

from __future__ import annotations

import functools
from collections import Counter
from dataclasses import dataclass

import mujoco
import numpy as np
from mujoco.gl_context import GLContext

from rlcore_env_metaworld.cameras import CAMERAS, CameraMount

# Geoms a scene may hold; MetaWorld's have about 40.
MAX_GEOMS = 1000


@dataclass(frozen=True)
class View:
    """What changes pixels: the camera, the size in pixels, and whether to save on light.

    `reflection` draws the pass for reflecting materials, of which MetaWorld has none: a third
    of the time for the same pixels. It is here so that a test can say so.
    """

    camera: str
    size: int
    fast: bool = False
    reflection: bool = False

    @property
    def mount(self) -> CameraMount:
        return CAMERAS[self.camera]


def prepare_model(model: mujoco.MjModel, view: View) -> None:
    """Set the camera, the lights and the buffer size of a model, before its first frame.

    A moved camera shows after the next forward pass of the model.
    """
    model.vis.global_.offwidth = view.size
    model.vis.global_.offheight = view.size
    if view.mount.position is not None:
        model.cam_pos[model.camera(view.mount.name).id] = view.mount.position
    if view.fast:
        model.light_castshadow[:] = 0
        model.vis.quality.offsamples = 0
        model.vis.quality.shadowsize = 0  # nothing casts one: saves a 64 MB buffer


@functools.cache
def _process_context() -> GLContext:
    """The GL context of this process. Cached for good: dropping it is the black-frame trap."""
    return GLContext(64, 64)  # frames are drawn into buffers of MuJoCo's own, of any size


class Renderer:
    """Draws any model of one task: meshes and textures are uploaded once for all of them.

    Args:
        model: a model of the task, after :func:`prepare_model`.
        view: what to draw.
    """

    def __init__(self, model: mujoco.MjModel, view: View) -> None:
        self._view = view
        self._scene = mujoco.MjvScene(model, MAX_GEOMS)
        self._scene.flags[mujoco.mjtRndFlag.mjRND_REFLECTION] = view.reflection
        self._options = mujoco.MjvOption()
        self._camera = mujoco.MjvCamera()
        self._camera.type = mujoco.mjtCamera.mjCAMERA_FIXED
        self._camera.fixedcamid = model.camera(view.mount.name).id
        self._rectangle = mujoco.MjrRect(0, 0, view.size, view.size)
        self._pixels = np.empty((view.size, view.size, 3), dtype=np.uint8)
        _process_context().make_current()
        self._uploaded = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_100.value)

    def draw(self, model: mujoco.MjModel, data: mujoco.MjData, out: np.ndarray) -> None:
        """Write the frame of a state into `out`, uint8 `[H, W, 3]`, upright RGB."""
        _process_context().make_current()
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN.value, self._uploaded)
        mujoco.mjv_updateScene(
            model,
            data,
            self._options,
            None,
            self._camera,
            mujoco.mjtCatBit.mjCAT_ALL.value,
            self._scene,
        )
        mujoco.mjr_render(self._rectangle, self._scene, self._uploaded)
        mujoco.mjr_readPixels(self._pixels, None, self._rectangle, self._uploaded)
        # GL rows run from the bottom up; turning by 180 degrees undoes that and mirrors columns.
        out[:] = self._pixels[:, ::-1] if self._view.mount.rotated else self._pixels[::-1]

    def close(self) -> None:
        """Free what was uploaded; the process keeps its context."""
        _process_context().make_current()
        self._uploaded.free()


class Renderers:
    """The renderers of one process, one a task, made when its first frame is drawn.

    A simulator joins its task and leaves it; with the last one goes the renderer.
    """

    def __init__(self, view: View) -> None:
        self.view = view
        self._members: Counter[str] = Counter()
        self._renderers: dict[str, Renderer] = {}

    def join(self, task: str) -> None:
        """Another simulator of the task."""
        self._members[task] += 1

    def of(self, task: str, model: mujoco.MjModel) -> Renderer:
        """The renderer of a task, for any model of it."""
        if task not in self._renderers:
            self._renderers[task] = Renderer(model, self.view)
        return self._renderers[task]

    def leave(self, task: str) -> None:
        """A simulator of the task is gone."""
        self._members[task] -= 1
        if not self._members[task] and task in self._renderers:
            self._renderers.pop(task).close()
