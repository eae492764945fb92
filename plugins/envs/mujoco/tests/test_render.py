"""Frames of a small scene: cameras, flips, quality, and the contexts of others in the process.

The scene is lit evenly and seen from above: red to the west, green to the east, blue to the north,
so a frame that is north up has red on its left and blue on top.
"""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
from mujoco.gl_context import GLContext
from rlcore_mujoco.render import Renderer, Renderers, prepare_model
from rlcore_mujoco.view import Camera, View

SCENE = """
<mujoco>
  <visual><headlight ambient="1 1 1" diffuse="0 0 0" specular="0 0 0"/></visual>
  <asset>
    <material name="mirror" reflectance="{reflectance}" rgba="0.5 0.5 0.5 1"/>
  </asset>
  <worldbody>
    <light pos="1 1 3" dir="-0.3 -0.3 -1" diffuse="0.4 0.4 0.4"/>
    <geom type="plane" size="9 9 .1" material="mirror"/>
    <geom name="west" type="box" size=".2 .2 .2" pos="-.6 0 .3" rgba="1 0 0 1"/>
    <geom name="east" type="box" size=".2 .2 .2" pos=".6 0 .3" rgba="0 1 0 1"/>
    <geom name="north" type="box" size=".2 .2 .2" pos="0 .6 .3" rgba="0 0 1 1" group="2"/>
    <body><freejoint/><geom size=".05" pos="0 0 1"/></body>
    <camera name="above" pos="0 0 4" fovy="40"/>
    <camera name="south" pos="0 -3 1.5" xyaxes="1 0 0 0 .4 1" fovy="40"/>
  </worldbody>
</mujoco>
"""
RED, GREEN, BLUE = range(3)
NORTH = 2  # the group of its box


def scene(view: View, *, reflectance: float = 0.0) -> tuple[mujoco.MjModel, mujoco.MjData]:
    model = mujoco.MjModel.from_xml_string(SCENE.format(reflectance=reflectance))
    prepare_model(model, view)
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    return model, data


def drawn(renderer: Renderer, view: View, model: mujoco.MjModel, data: mujoco.MjData) -> np.ndarray:
    """The frame of the view's only camera."""
    ((name, camera),) = view.cameras.items()
    out = np.zeros((camera.height, camera.width, 3), dtype=np.uint8)
    renderer.draw(model, data, {name: out})
    return out


def frame(view: View, *, reflectance: float = 0.0) -> np.ndarray:
    model, data = scene(view, reflectance=reflectance)
    renderer = Renderer(model, view)
    out = drawn(renderer, view, model, data)
    renderer.close()
    return out


def above(
    height: int = 40,
    width: int = 40,
    *,
    flip_rows: bool = False,
    flip_columns: bool = False,
    **quality: object,
) -> View:
    camera = Camera("above", height, width, flip_rows=flip_rows, flip_columns=flip_columns)
    return View({"top": camera}, **quality)  # type: ignore[arg-type]


def is_box(image: np.ndarray, channel: int) -> np.ndarray:
    """Where the box of a colour is, bool `[H, W]`."""
    others = np.delete(image, channel, axis=-1).max(axis=-1)
    return image[..., channel].astype(int) - others > 100


def side_of(image: np.ndarray, channel: int) -> tuple[str, str]:
    """Where the middle of that box is: top, middle or bottom, and left, middle or right."""
    rows, columns = np.nonzero(is_box(image, channel))
    third_of_rows = int(3 * rows.mean() / image.shape[0])
    third_of_columns = int(3 * columns.mean() / image.shape[1])
    return ("top", "middle", "bottom")[third_of_rows], ("left", "middle", "right")[third_of_columns]


@pytest.mark.parametrize(
    ("flips", "west", "east", "north"),
    [
        ({}, "left", "right", "top"),
        ({"flip_rows": True}, "left", "right", "bottom"),
        ({"flip_columns": True}, "right", "left", "top"),
        ({"flip_rows": True, "flip_columns": True}, "right", "left", "bottom"),
    ],
)
def test_frames_are_upright_unless_they_are_flipped(
    flips: dict, west: str, east: str, north: str
) -> None:
    image = frame(above(**flips))
    assert side_of(image, RED) == ("middle", west)
    assert side_of(image, GREEN) == ("middle", east)
    assert side_of(image, BLUE) == (north, "middle")


def test_each_camera_has_its_own_size_and_frame() -> None:
    cameras = {"top": Camera("above", 24, 40), "side": Camera("south", 56, 32)}
    view = View(cameras)
    model, data = scene(view)
    renderer = Renderer(model, view)
    out = {name: np.zeros((c.height, c.width, 3), np.uint8) for name, c in cameras.items()}
    renderer.draw(model, data, out)
    for name, camera in cameras.items():
        alone = View({name: camera})
        np.testing.assert_array_equal(out[name], frame(alone))
        assert out[name][-1].any() and out[name][:, -1].any()  # to the last row and column
    renderer.close()


def test_hidden_groups_are_not_drawn() -> None:
    image = frame(above(hidden_groups=(NORTH,)))
    assert not is_box(image, BLUE).any() and is_box(frame(above()), BLUE).any()
    assert side_of(image, RED) == ("middle", "left")


def test_fast_frames_have_neither_shadows_nor_smooth_edges() -> None:
    smooth, fast = frame(above()), frame(above(fast=True))
    colours = [len(np.unique(image.reshape(-1, 3), axis=0)) for image in (smooth, fast)]
    assert colours[1] < colours[0]
    view = above(fast=True)
    model, _ = scene(view)
    assert not model.light_castshadow.any()
    assert view.quality == {
        "fast_render": True,
        "shadows": False,
        "antialiasing": False,
        "reflection": False,
        "render_detail": "exact",
    }


def test_a_scene_without_shadows_needs_no_buffer_for_them() -> None:
    view = above()
    model, data = scene(view)
    assert model.vis.quality.shadowsize > 0
    model.light_castshadow[:] = 0  # before the first frame, as a scene's own lights may have it
    renderer = Renderer(model, view)
    with_buffer = drawn(renderer, view, model, data)
    renderer.close()
    prepare_model(model, view)
    assert model.vis.quality.shadowsize == 0
    renderer = Renderer(model, view)
    np.testing.assert_array_equal(drawn(renderer, view, model, data), with_buffer)
    assert not np.array_equal(with_buffer, frame(view))  # there were shadows before
    renderer.close()


@pytest.mark.parametrize(("reflectance", "equal"), [(0.0, True), (0.8, False)])
def test_the_reflection_pass_changes_pixels_only_where_something_reflects(
    reflectance: float, equal: bool
) -> None:
    camera = {"side": Camera("south", 40, 40)}
    with_pass = frame(View(camera, reflection=True), reflectance=reflectance)
    without = frame(View(camera), reflectance=reflectance)
    assert np.array_equal(with_pass, without) is equal


def test_contexts_of_others_blacken_nothing() -> None:
    view = above()
    model, data = scene(view)
    renderer = Renderer(model, view)
    before = drawn(renderer, view, model, data)
    assert before.any()
    other = GLContext(32, 32)
    other.make_current()
    np.testing.assert_array_equal(before, drawn(renderer, view, model, data))
    other.make_current()
    other.free()  # now no context is current: a renderer of MuJoCo's would give black frames
    np.testing.assert_array_equal(before, drawn(renderer, view, model, data))
    second = Renderer(model, view)
    second.close()
    np.testing.assert_array_equal(before, drawn(renderer, view, model, data))
    renderer.close()


def test_simulators_of_a_scene_share_a_renderer_which_the_last_one_frees() -> None:
    view = above()
    renderers = Renderers(view)
    (one, first), (two, second) = scene(view), scene(view)
    second.qpos[:2] = 0.8
    mujoco.mj_forward(two, second)
    for _ in range(2):
        renderers.join("boxes")
    renderers.join("other")
    shared = renderers.of("boxes", one)
    assert renderers.of("boxes", two) is shared
    assert renderers.of("other", one) is not shared
    images = [drawn(shared, view, *each) for each in ((one, first), (two, second), (one, first))]
    np.testing.assert_array_equal(images[0], images[2])
    assert not np.array_equal(images[0], images[1])
    renderers.leave("boxes")
    assert renderers.of("boxes", two) is shared
    renderers.leave("boxes")
    renderers.join("boxes")
    assert renderers.of("boxes", two) is not shared
    renderers.leave("boxes")
    renderers.leave("other")
