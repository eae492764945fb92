"""Frames of MuJoCo scenes, one GL context per process.

Gymnasium gives every env its own GL context, and closing one env frees whichever context is
current; after that all other envs of the process render black frames, without an error. Here the
process has one context that is never freed, and we make it current before every frame, whatever
else uses GL in the process. Knows nothing of tasks, rewards and processes.
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
    """What changes pixels: the camera, the size in pixels, and `fast`, without shadows.

    `reflection` adds a pass for reflecting materials. MetaWorld has none, so it takes a third of
    the time and gives the same pixels; the switch is here for the test that shows it.
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

    A camera that was moved shows after the next forward pass of the model.
    """
    model.vis.global_.offwidth = view.size
    model.vis.global_.offheight = view.size
    if view.mount.position is not None:
        model.cam_pos[model.camera(view.mount.name).id] = view.mount.position
    if view.fast:
        model.light_castshadow[:] = 0
        model.vis.quality.offsamples = 0
        model.vis.quality.shadowsize = 0  # no shadows: saves a 64 MB buffer


@functools.cache
def _process_context() -> GLContext:
    """The GL context of this process. Kept for good: freeing it makes frames black."""
    return GLContext(64, 64)  # MuJoCo renders into its own buffers, of any size


class Renderer:
    """Renders any model of one task: meshes and textures are uploaded once for all of them.

    Args:
        model: a model of the task, after :func:`prepare_model`.
        view: camera, size and quality.
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
        # GL rows run from the bottom up; a rotation by 180 degrees undoes that and mirrors columns.
        out[:] = self._pixels[:, ::-1] if self._view.mount.rotated else self._pixels[::-1]

    def close(self) -> None:
        """Free what was uploaded; the process keeps its context."""
        _process_context().make_current()
        self._uploaded.free()


class Renderers:
    """The renderers of one process, one per task, made for its first frame.

    Simulators join and leave their task; the renderer is freed with the last one.
    """

    def __init__(self, view: View) -> None:
        self.view = view
        self._members: Counter[str] = Counter()
        self._renderers: dict[str, Renderer] = {}

    def join(self, task: str) -> None:
        """Count one more simulator of the task."""
        self._members[task] += 1

    def of(self, task: str, model: mujoco.MjModel) -> Renderer:
        """The renderer of a task, for any model of it."""
        if task not in self._renderers:
            self._renderers[task] = Renderer(model, self.view)
        return self._renderers[task]

    def leave(self, task: str) -> None:
        """Count one simulator of the task less."""
        self._members[task] -= 1
        if not self._members[task] and task in self._renderers:
            self._renderers.pop(task).close()
