"""Render frames of MuJoCo scenes, with one GL context per process.

Gymnasium gives every env its own GL context, and closing one env frees whichever context is
current. After that all other envs of the process render black frames, without an error. Here the
process has one context that is never freed. It is made current before each frame, because other
code in the process may use GL, too.
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

# Capacity of a scene in geoms, as in MuJoCo's own renderer. MuJoCo does not draw more than that.
MAX_GEOMS = 10_000
ALL = mujoco.mjtCatBit.mjCAT_ALL.value


def prepare_model(model: mujoco.MjModel, view: View) -> None:
    """Set shadows, antialiasing and buffer size in a model, before its first frame.

    Also saves the model's positions for :func:`rlcore_mujoco.detail.drawn_model`.
    """
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
    """Return the GL context of this process. It is never freed: later frames would be black."""
    return GLContext(64, 64)  # this size is irrelevant: MuJoCo renders into its own framebuffers


class Renderer:
    """Renderer for all models of one scene, which share the uploaded meshes and textures.

    Args:
        model: a model of the scene, after :func:`prepare_model`.
        view: cameras, sizes and quality of the frames.
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
        """Render a state with each camera.

        Changed positions of cameras, lights and bodies in the model are visible after the next
        forward pass.

        Args:
            model: a model of the scene.
            data: state to render.
            out: array for each camera's frame by name, uint8 `[H, W, 3]` RGB, which is overwritten.
                :class:`rlcore_simulation.detail.FilmFrames` are rendered with exact meshes,
                whatever the view's detail is.
            row: identifies the row whose state `data` holds, if several rows use the same `data`.
        """
        if isinstance(out, FilmFrames) and self._view.detail != EXACT:
            self._for_films(model, out).draw(model, data, out)
            return
        _process_context().make_current()
        for name, eye in self._cameras.items():
            self._draw(model, data, eye, data if row is None else row)
            out[name][:] = eye.frame

    def _draw(self, model: mujoco.MjModel, data: mujoco.MjData, eye: _Eye, row: object) -> None:
        """Render what a camera sees into `eye.pixels`."""

        def update() -> None:
            # update the camera first: infinite planes are centred at the scene's previous camera
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
        """Free the uploaded geometry and textures. The process keeps its GL context."""
        _process_context().make_current()
        for eye in self._cameras.values():
            eye.uploaded.free()
        if self._exact is not None:
            self._exact.close()

    def _for_films(self, model: mujoco.MjModel, out: FilmFrames) -> Renderer:
        """Return a renderer with exact meshes, which are uploaded for the first filmed episode."""
        if self._exact is None:
            cameras = {name: self._view.cameras[name] for name in out}
            self._exact = Renderer(model, replace(self._view, cameras=cameras, detail=EXACT))
        return self._exact


def _uploads(model: mujoco.MjModel, view: View) -> dict[str, mujoco.MjrContext]:
    """Upload the geometry for each camera.

    With exact detail all cameras share one upload. Otherwise each camera has its own, because
    meshes are simplified for its distances.
    """
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
    """A camera of the renderer with its pixel buffers.

    Attributes:
        uploaded: geometry and textures from which this camera's frames are rendered.
        camera: the camera as MuJoCo's renderer takes it.
        number: id of the camera in the model.
        aspect: width of the frame divided by its height.
        rectangle: viewport.
        pixels: last image as MuJoCo reads it, from the bottom row up, uint8 `[H, W, 3]`.
        still: cache of the static part of the image; None with exact detail.
        frame: view of `pixels` in the orientation of the camera's frames.
    """

    def __init__(
        self, model: mujoco.MjModel, view: View, name: str, uploaded: mujoco.MjrContext
    ) -> None:
        camera = view.cameras[name]
        self.uploaded = uploaded
        self.camera = mujoco.MjvCamera()
        self.camera.type = mujoco.mjtCamera.mjCAMERA_FIXED
        self.camera.fixedcamid = self.number = model.camera(camera.name).id
        self.aspect = camera.width / camera.height
        self.rectangle = mujoco.MjrRect(0, 0, camera.width, camera.height)
        self.pixels = np.empty((camera.height, camera.width, 3), dtype=np.uint8)
        self.still = None
        if view.detail != EXACT:
            self.still = Still(model, view, self.number, (camera.height, camera.width))
        # GL returns rows from the bottom up, so the rows of an unflipped frame are reversed here.
        rows = slice(None) if camera.flip_rows else slice(None, None, -1)
        columns = slice(None, None, -1) if camera.flip_columns else slice(None)
        self.frame = self.pixels[rows, columns]  # a view of the pixels


class Renderers:
    """Renderers of one process, one per scene.

    Simulators join and leave a scene, e.g. that of their task. Its renderer is made for the first
    frame, and freed when the last simulator leaves.

    Args:
        view: cameras, sizes and quality of the frames.
    """

    def __init__(self, view: View) -> None:
        self.view = view
        self._members: Counter[str] = Counter()
        self._renderers: dict[str, Renderer] = {}

    def join(self, scene: str) -> None:
        """Add a simulator to the scene."""
        self._members[scene] += 1

    def of(self, scene: str, model: mujoco.MjModel) -> Renderer:
        """Return the renderer of a scene, which can render all models of it.

        Args:
            scene: name of the scene, e.g. of a task.
            model: model from which the geometry is uploaded if there is no renderer yet.
        """
        if scene not in self._renderers:
            self._renderers[scene] = Renderer(model, self.view)
        return self._renderers[scene]

    def leave(self, scene: str) -> None:
        """Remove a simulator from the scene, and free the renderer after the last one."""
        self._members[scene] -= 1
        if not self._members[scene] and scene in self._renderers:
            self._renderers.pop(scene).close()
