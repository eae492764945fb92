"""What stands still is drawn once: same pixels as drawn whole, whatever changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import mujoco
import numpy as np
import pytest
from rlcore_mujoco.render import Renderer, prepare_model
from rlcore_mujoco.still import Still
from rlcore_mujoco.view import Camera, View
from rlcore_simulation.detail import PIXEL

SCENE = """
<mujoco>
  <worldbody>
    <light pos="1 -1 3" dir="-.3 .3 -1" castshadow="false"/>
    <geom type="plane" size="2 2 .1" rgba=".3 .4 .3 1"/>
    <body name="shelf" pos=".3 .4 .2"><geom name="shelf" type="box" size=".2 .1 .2"/></body>
    <body name="arm" pos="0 0 .6"><joint name="swing" axis="0 1 0"/>
      <geom type="capsule" fromto="0 0 0 0 0 -.4" size=".08" rgba=".8 .3 .2 1"/>
      <site name="tip" pos="0 0 -.5" size=".05" rgba="1 1 0 1"/>
    </body>
    <body name="ball" pos="-.3 .2 .1"><freejoint/>
      <geom name="ball" type="sphere" size=".1" rgba=".2 .3 .8 1"/>
    </body>
    <camera name="south" pos="0 -1.5 .5" xyaxes="1 0 0 0 0 1" fovy="45"/>
  </worldbody>
</mujoco>"""
VIEW = View({"side": Camera("south", 48, 64)}, fast=True, detail=PIXEL)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


@pytest.fixture
def pictures(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many geoms stood still in each frame's picture, as far as there is one."""
    counts = []
    draw = Still.draw

    def counted(self: Still, *arguments: object) -> None:
        draw(self, *arguments)  # type: ignore[arg-type]
        counts.extend(int(each.shown.sum()) for each in self._pictures.values())

    monkeypatch.setattr(Still, "draw", counted)
    return counts


def built() -> tuple[mujoco.MjModel, mujoco.MjData]:
    model = mujoco.MjModel.from_xml_string(SCENE)
    prepare_model(model, VIEW)
    return model, mujoco.MjData(model)


def drawn(renderer: Renderer, model: mujoco.MjModel, data: mujoco.MjData) -> np.ndarray:
    out = np.zeros((48, 64, 3), np.uint8)
    renderer.draw(model, data, {"side": out})
    return out


Change = Callable[[mujoco.MjModel, mujoco.MjData], None]


def swing(model: mujoco.MjModel, data: mujoco.MjData) -> None:
    data.joint("swing").qpos += 0.2


def push(model: mujoco.MjModel, data: mujoco.MjData) -> None:
    data.qpos[-7] += 0.05


def move_shelf(model: mujoco.MjModel, data: mujoco.MjData) -> None:
    model.body("shelf").pos[0] -= 0.2


def move_camera(model: mujoco.MjModel, data: mujoco.MjData) -> None:
    model.cam_pos[0, 2] += 0.1


def paint(model: mujoco.MjModel, data: mujoco.MjData) -> None:
    model.geom("shelf").rgba[:] = (0.9, 0.1, 0.9, 1)


def darken(model: mujoco.MjModel, data: mujoco.MjData) -> None:
    model.vis.headlight.diffuse[:] = 0.1


def see_through(model: mujoco.MjModel, data: mujoco.MjData) -> None:
    model.geom("ball").rgba[3] = 0.5


def hide(model: mujoco.MjModel, data: mujoco.MjData) -> None:
    model.geom("ball").rgba[3] = 0.0


def states(*changes: Change) -> Iterator[tuple[mujoco.MjModel, mujoco.MjData]]:
    """The arm swings for some frames before and after each change."""
    model, data = built()
    for change in (swing, swing, *changes):
        change(model, data)
        for _ in range(3):
            swing(model, data)
            mujoco.mj_forward(model, data)
            yield model, data


@pytest.mark.parametrize(
    "changes",
    [(), (push, push), (move_shelf,), (move_camera,), (paint, darken), (see_through,), (hide,)],
    ids=lambda changes: "-".join(change.__name__ for change in changes),
)
def test_frames_are_those_that_are_drawn_whole(
    changes: tuple[Change, ...], pictures: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    renderer = Renderer(built()[0], VIEW)
    found = [drawn(renderer, *state) for state in states(*changes)]
    renderer.close()
    # plane, shelf and ball stand still since the second frame; what changes is left out of it
    assert pictures[:3] == [0, 3, 3]

    monkeypatch.setattr(Still, "draw", lambda *arguments: arguments[6](arguments[7], None))
    renderer = Renderer(built()[0], VIEW)
    whole = [drawn(renderer, *state) for state in states(*changes)]
    renderer.close()
    assert len({frame.tobytes() for frame in whole}) == len(whole)
    np.testing.assert_array_equal(np.stack(found), np.stack(whole))


def test_rows_that_take_turns_have_their_own_pictures(pictures: list[int]) -> None:
    model, one = built()
    other = mujoco.MjData(model)
    other.qpos[-7] = 0.4
    renderer = Renderer(model, VIEW)
    for _ in range(3):
        for data in (one, other):
            swing(model, data)
            mujoco.mj_forward(model, data)
            drawn(renderer, model, data)
    assert pictures[-2:] == [3, 3]
    del data, other  # of a row that is gone nothing is kept
    assert len(renderer._cameras["side"].still._pictures) == 1  # type: ignore[union-attr]
    renderer.close()


def test_shadows_and_averaged_edges_are_drawn_whole(pictures: list[int]) -> None:
    view = View(VIEW.cameras, fast=False, detail=PIXEL)
    model = mujoco.MjModel.from_xml_string(SCENE)
    prepare_model(model, view)
    data = mujoco.MjData(model)
    renderer = Renderer(model, view)
    for _ in range(3):
        mujoco.mj_forward(model, data)
        drawn(renderer, model, data)
    renderer.close()
    assert not pictures
