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


def widen(model: mujoco.MjModel, data: mujoco.MjData) -> None:
    model.geom("shelf").size[0] *= 2


def leave_group(model: mujoco.MjModel, data: mujoco.MjData) -> None:
    model.geom("shelf").group = 4


def stand(model: mujoco.MjModel, data: mujoco.MjData) -> None:
    """The ball becomes a box, like the shelf."""
    model.geom("ball").type = mujoco.mjtGeom.mjGEOM_BOX
    model.geom("ball").size[:] = model.geom("shelf").size


def fit(model: mujoco.MjModel, data: mujoco.MjData) -> None:
    """It moves to where the shelf is, at the same depths; what is drawn later hides the other."""
    data.qpos[-7:-4] = model.body("shelf").pos


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
    [
        *[(), (push, push), (move_shelf,), (move_camera,), (paint, darken), (see_through,)],
        *[(hide,), (widen,), (leave_group,), (stand, fit)],
    ],
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


WORLD = """
<mujoco>
  <visual><map znear=".02" zfar="30"/></visual>
  <asset>
    <texture name="sky" type="skybox" builtin="gradient" rgb1=".3 .5 .7" rgb2="0 0 0" width="32"
      height="192"/>
    <texture name="squares" type="2d" builtin="checker" rgb1=".1 .2 .3" rgb2=".8 .8 .7" width="32"
      height="32"/>
    <material name="squares" texture="squares" texrepeat="5 5" reflectance=".3"/>
    <material name="metal" specular="1" shininess=".9" rgba=".6 .6 .7 1"/>
    <mesh name="wedge" vertex="0 0 0 .3 0 0 0 .3 0 0 0 .3 .3 .3 0"/>
  </asset>
  <worldbody>
    <light name="lamp" pos="1 -1 3" dir="-.3 .3 -1" castshadow="false"/>
    <geom name="floor" type="plane" size="0 0 .1" material="squares"/>
    {bodies}
    <camera name="south" pos="0 -2.5 1" xyaxes="1 0 0 0 .4 1" fovy="50"/>
  </worldbody>
</mujoco>"""


def world(random: np.random.Generator) -> mujoco.MjModel:
    """Things of all kinds, placed in steps of 0.1 m, so that faces lie in one plane."""
    bodies = []
    for number in range(12):
        kind = random.choice(["box", "sphere", "capsule", "cylinder", "ellipsoid", "mesh"])
        shape = 'mesh="wedge"' if kind == "mesh" else 'size=".2 .2 .2"'
        place = " ".join(f"{step / 10}" for step in random.integers((-8, -5, 1), (9, 9, 9)))
        colour = " ".join(f"{part:.2f}" for part in random.uniform(0.1, 1, 3))
        joint = random.choice(
            ["", "", "<freejoint/>", '<joint axis="0 1 0"/>', '<joint type="slide" axis="1 0 0"/>']
        )
        light = '<light pos="0 0 .5" castshadow="false"/>' if number == 3 else ""
        mocap = 'mocap="true"' if number == 11 else ""
        bodies.append(
            f'<body name="b{number}" pos="{place}" {mocap}>{"" if mocap else joint}'
            f'<geom name="g{number}" type="{kind}" {shape} mass="1" rgba="{colour} 1"/>'
            f'<site pos=".2 0 0" size=".05" rgba="1 1 0 1"/>{light}</body>'
        )
    return mujoco.MjModel.from_xml_string(WORLD.format(bodies="".join(bodies)))


def disturb(random: np.random.Generator, model: mujoco.MjModel, data: mujoco.MjData) -> None:
    """Change one thing that shows."""
    body, geom = random.integers(1, model.nbody), random.integers(model.ngeom)
    site = random.integers(model.nsite)
    step = random.integers(-2, 3, 3) / 10
    head, map_ = model.vis.headlight, model.vis.map
    changes: list[Callable[[], object]] = [
        lambda: model.body_pos.__setitem__(body, model.body_pos[body] + step),
        lambda: data.mocap_pos.__iadd__(step),
        lambda: mujoco.mj_resetData(model, data),
        lambda: model.geom_rgba.__setitem__((geom, slice(3)), random.uniform(0, 1, 3)),
        lambda: model.geom_rgba.__setitem__((geom, 3), random.choice([0, 0.5, 1, 1, 1])),
        lambda: model.geom_size.__setitem__(geom, model.geom_size[geom] * 1.1),
        lambda: model.geom_matid.__setitem__(geom, random.integers(-1, model.nmat)),
        lambda: model.geom_group.__setitem__(geom, random.choice([0, 0, 4])),
        lambda: model.mat_rgba.__setitem__((1, slice(3)), random.uniform(0, 1, 3)),
        lambda: model.mat_texrepeat.__setitem__(0, random.integers(1, 6, 2)),
        lambda: model.site_rgba.__setitem__((site, slice(3)), random.uniform(0, 1, 3)),
        lambda: model.site_rgba.__setitem__((site, 3), random.choice([0, 0.5, 1, 1, 1])),
        lambda: model.site_size.__setitem__(site, model.site_size[site] * 1.1),
        lambda: model.site_pos.__setitem__(site, model.site_pos[site] + step),
        lambda: model.light_active.__setitem__(0, random.integers(2)),
        lambda: model.light_diffuse.__setitem__(0, random.uniform(0, 1, 3)),
        lambda: model.light_pos.__setitem__(0, model.light_pos[0] + step),
        lambda: model.cam_pos.__setitem__(0, model.cam_pos[0] + step),
        lambda: model.cam_fovy.__setitem__(0, random.uniform(30, 70)),
        lambda: head.ambient.__setitem__(0, random.uniform(0, 0.5)),
        lambda: setattr(head, "active", int(random.integers(2))),
        lambda: setattr(map_, "haze", random.uniform(0.1, 0.9)),
        lambda: model.vis.rgba.haze.__setitem__(0, random.uniform()),
        lambda: setattr(map_, "znear", random.uniform(0.01, 0.5)),
        lambda: setattr(model.stat, "extent", random.uniform(1, 3)),
    ]
    changes[random.integers(len(changes))]()


def sees_two(renderer: Renderer, model: mujoco.MjModel, data: mujoco.MjData) -> int:
    """Draw as it is and then whole; equal to the bit. How many geoms its picture showed."""
    found = drawn(renderer, model, data)
    eye = renderer._cameras["side"]
    still, eye.still = eye.still, None
    np.testing.assert_array_equal(found, drawn(renderer, model, data))
    eye.still = still
    assert still is not None
    return sum(int(each.shown.sum()) for each in still._pictures.values())


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    ("worlds", "frames"), [(3, 60), pytest.param(100, 150, marks=pytest.mark.long)]
)
def test_frames_equal_those_drawn_whole_after_any_changes(worlds: int, frames: int) -> None:
    shown = 0
    for seed in range(worlds):
        random = np.random.default_rng(seed)
        model = world(random)
        prepare_model(model, VIEW)
        data = mujoco.MjData(model)
        renderer = Renderer(model, VIEW)
        for _ in range(frames):
            if random.uniform() < 0.4:
                disturb(random, model, data)
            if random.uniform() < 0.8 and model.nv:
                data.qpos[random.integers(model.nq)] += random.integers(-2, 3) / 10
            mujoco.mj_forward(model, data)
            shown += sees_two(renderer, model, data) > 0
        renderer.close()
    assert shown > worlds * frames / 8  # many of them were put together


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
