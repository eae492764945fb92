"""Frames of MuJoCo scenes, one GL context per process.

Gymnasium gives every env its own GL context, and closing one env frees whichever context is
current; after that all other envs of the process render black frames, without an error. Here the
process has one context that is never freed, and we make it current before every frame, whatever
else uses GL in the process. Knows nothing of tasks, rewards and processes.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import mujoco
import numpy as np
from mujoco.gl_context import GLContext
from rlcore_simulation.detail import EXACT, FilmFrames

from rlcore_mujoco.detail import drawn_model, remember
from rlcore_mujoco.frustum import Outside
from rlcore_mujoco.still import Still
from rlcore_mujoco.view import View

# Geoms that a frame may hold, as in MuJoCo's own renderer; those beyond it would not be drawn.
MAX_GEOMS = 10_000
ALL = mujoco.mjtCatBit.mjCAT_ALL.value


def prepare_model(model: mujoco.MjModel, view: View) -> None:
    """Set the lights and the size of the buffer of a model, before its first frame."""
    model.vis.global_.offheight = max(camera.height for camera in view.cameras.values())
    model.vis.global_.offwidth = max(camera.width for camera in view.cameras.values())
    if view.fast:
        model.light_castshadow[:] = 0
        model.vis.quality.offsamples = 0
    if not model.light_castshadow.any():
        model.vis.quality.shadowsize = 0  # saves 64 MB for each scene, and changes no pixel
    remember(model)


@functools.cache
def _process_context() -> GLContext:
    """The GL context of this process. Kept for good: freeing it makes frames black."""
    return GLContext(64, 64)  # MuJoCo renders into its own buffers, of any size


class Renderer:
    """Renders any model of one scene: meshes and textures are uploaded once for all of them.

    Args:
        model: a model of the scene, after :func:`prepare_model`.
        view: cameras, sizes and quality.
    """

    def __init__(self, model: mujoco.MjModel, view: View) -> None:
        self._view = view
        self._exact: Renderer | None = None
        self._scene = mujoco.MjvScene(model, MAX_GEOMS)
        self._scene.flags[mujoco.mjtRndFlag.mjRND_REFLECTION] = view.reflection
        self._outside = Outside(model, view)
        self._options = mujoco.MjvOption()
        self._options.geomgroup[list(view.hidden_groups)] = 0
        _process_context().make_current()
        uploads = _uploads(model, view)
        self._cameras = {name: _Eye(model, view, name, of) for name, of in uploads.items()}

    def draw(
        self,
        model: mujoco.MjModel,
        data: mujoco.MjData,
        out: Mapping[str, np.ndarray],
        row: object = None,
    ) -> None:
        """Write the frames of a state into `out[name]`, uint8 `[H, W, 3]` RGB, of each camera.

        A camera, light or body of the model that was moved shows after the next forward pass.
        Frames of a film are exact, whatever the view's detail. `row` is whose state it is, where
        rows show theirs in the same data.
        """
        if isinstance(out, FilmFrames) and self._view.detail != EXACT:
            self._for_films(model, out).draw(model, data, out)
            return
        _process_context().make_current()
        for name, eye in self._cameras.items():
            self._draw(model, data, eye, data if row is None else row)
            out[name][:] = eye.frame

    def _draw(self, model: mujoco.MjModel, data: mujoco.MjData, eye: _Eye, row: object) -> None:
        """Draw what a camera sees into its pixels."""

        def update() -> None:
            # infinite planes are laid around where the scene's camera was before
            mujoco.mjv_updateCamera(model, data, eye.camera, self._scene)
            mujoco.mjv_updateScene(model, data, self._options, None, eye.camera, ALL, self._scene)
            self._outside.leave_out(model, data, eye.number, eye.aspect, self._scene)

        def render(pixels: np.ndarray, depth: np.ndarray | None) -> None:
            mujoco.mjr_render(eye.rectangle, self._scene, eye.uploaded)
            mujoco.mjr_readPixels(pixels, depth, eye.rectangle, eye.uploaded)

        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN.value, eye.uploaded)
        update()
        if eye.still is None:
            render(eye.pixels, None)
        else:
            eye.still.draw(model, data, row, self._scene, update, render, eye.pixels)

    def close(self) -> None:
        """Free what was uploaded; the process keeps its context."""
        _process_context().make_current()
        for eye in self._cameras.values():
            eye.uploaded.free()
        if self._exact is not None:
            self._exact.close()

    def _for_films(self, model: mujoco.MjModel, out: FilmFrames) -> Renderer:
        """With all of the scene's geometry, uploaded when the first episode is filmed."""
        if self._exact is None:
            cameras = {name: self._view.cameras[name] for name in out}
            self._exact = Renderer(model, replace(self._view, cameras=cameras, detail=EXACT))
        return self._exact


def _uploads(model: mujoco.MjModel, view: View) -> dict[str, mujoco.MjrContext]:
    """What each camera draws from: one for all of them, unless it is made for how they see."""
    scale = mujoco.mjtFontScale.mjFONTSCALE_100.value
    if view.detail == EXACT:
        return dict.fromkeys(view.cameras, mujoco.MjrContext(model, scale))
    uploads: dict[str, mujoco.MjrContext] = {}
    for name, camera in view.cameras.items():
        drawn = drawn_model(model, replace(view, cameras={name: camera}))
        uploads[name] = mujoco.MjrContext(drawn, scale)
        uploads[name].readDepthMap = mujoco.mjtDepthMap.mjDEPTH_ZEROFAR.value
    return uploads


class _Eye:
    """A camera in MuJoCo's terms: where it is, its rectangle, its pixels, what it draws from."""

    def __init__(
        self, model: mujoco.MjModel, view: View, name: str, uploaded: mujoco.MjrContext
    ) -> None:
        camera, self.uploaded = view.cameras[name], uploaded
        self.camera = mujoco.MjvCamera()
        self.camera.type = mujoco.mjtCamera.mjCAMERA_FIXED
        self.camera.fixedcamid = self.number = model.camera(camera.name).id
        self.aspect = camera.width / camera.height
        self.rectangle = mujoco.MjrRect(0, 0, camera.width, camera.height)
        self.pixels = np.empty((camera.height, camera.width, 3), dtype=np.uint8)
        self.still = None
        if view.detail != EXACT:
            self.still = Still(model, view, self.number, (camera.height, camera.width))
        # GL rows run from the bottom up, so a frame that is not flipped has them turned.
        rows = slice(None) if camera.flip_rows else slice(None, None, -1)
        columns = slice(None, None, -1) if camera.flip_columns else slice(None)
        self.frame = self.pixels[rows, columns]  # a view of the pixels


class Renderers:
    """The renderers of one process, one per scene, made for its first frame.

    Simulators join and leave their scene, e.g. a task; the renderer is freed with the last one.
    """

    def __init__(self, view: View) -> None:
        self.view = view
        self._members: Counter[str] = Counter()
        self._renderers: dict[str, Renderer] = {}

    def join(self, scene: str) -> None:
        """Count one more simulator of the scene."""
        self._members[scene] += 1

    def of(self, scene: str, model: mujoco.MjModel) -> Renderer:
        """The renderer of a scene, for any model of it."""
        if scene not in self._renderers:
            self._renderers[scene] = Renderer(model, self.view)
        return self._renderers[scene]

    def leave(self, scene: str) -> None:
        """Count one simulator of the scene less."""
        self._members[scene] -= 1
        if not self._members[scene] and scene in self._renderers:
            self._renderers.pop(scene).close()
