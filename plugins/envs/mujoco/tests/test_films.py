"""Films: all of a scene's geometry, whatever policies see of it."""

from __future__ import annotations

import copy

import mujoco
import numpy as np
import pytest
from rlcore_mujoco import render
from rlcore_mujoco.render import Renderers, prepare_model
from rlcore_mujoco.view import Camera, View
from rlcore_simulation.detail import EXACT, PIXEL, FilmFrames

SCENE = """
<mujoco>
  <asset><mesh name="wedge" vertex="-1 -1 0  1 -1 0  0 1 0  0 0 1"/></asset>
  <worldbody>
    <geom type="mesh" mesh="wedge"/>
    <camera name="above" pos="0 0 4" fovy="40"/>
    <camera name="south" pos="0 -4 1" xyaxes="1 0 0 0 .4 1" fovy="40"/>
  </worldbody>
</mujoco>
"""
CAMERAS = {"top": Camera("above", 24, 24), "side": Camera("south", 16, 16)}


def frames() -> dict[str, np.ndarray]:
    return {name: np.zeros((c.height, c.width, 3), np.uint8) for name, c in CAMERAS.items()}


def test_frames_of_films_are_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    model = mujoco.MjModel.from_xml_string(SCENE)
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    small = copy.copy(model)
    small.mesh_vert[:] *= 0.4
    monkeypatch.setattr(
        render, "drawn_model", lambda model, view: model if view.detail == EXACT else small
    )
    exact, pixel = (View(CAMERAS, detail=detail) for detail in (EXACT, PIXEL))
    prepare_model(model, pixel)
    plain, seen, again = frames(), frames(), frames()
    film = FilmFrames(side=frames()["side"])
    for view, outs in ((exact, [plain]), (pixel, [seen, film, again])):
        renderers = Renderers(view)
        renderers.join("wedge")
        for out in outs:
            renderers.of("wedge", model).draw(model, data, out)
        renderers.leave("wedge")
    np.testing.assert_array_equal(film["side"], plain["side"])
    for name, frame in seen.items():
        np.testing.assert_array_equal(frame, again[name])
        assert not np.array_equal(frame, plain[name])
