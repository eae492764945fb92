"""Frames of fewer faces: near the exact ones, from a model that physics never sees."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import mujoco
import numpy as np
import pytest
from rlcore_mujoco.detail import drawn_model
from rlcore_mujoco.frustum import Outside
from rlcore_mujoco.model import differing_arrays
from rlcore_mujoco.nearness import Sight
from rlcore_mujoco.render import Renderer, Renderers, prepare_model
from rlcore_mujoco.textures import reduce_textures
from rlcore_mujoco.view import Camera, View
from rlcore_simulation import kept_meshes
from rlcore_simulation.detail import EXACT, PIXEL
from rlcore_simulation.simplify import Mesh, simplified


def ball(rings: int = 40) -> tuple[np.ndarray, np.ndarray]:
    """Points and faces of a sphere of radius 1."""
    up, around = np.meshgrid(
        np.pi * np.arange(1, rings) / rings, np.arange(2 * rings), indexing="ij"
    )
    around = np.pi * around / rings
    ring = np.stack([np.sin(up) * np.cos(around), np.sin(up) * np.sin(around), np.cos(up)], axis=-1)
    points = np.concatenate([ring.reshape(-1, 3), [[0, 0, 1], [0, 0, -1]]])
    place = np.arange((rings - 1) * 2 * rings).reshape(rings - 1, -1)
    right = np.roll(place, -1, axis=1)
    a, b, c, d = (part.ravel() for part in (place[:-1], place[1:], right[1:], right[:-1]))
    top, bottom = len(points) - 2, len(points) - 1
    faces = np.concatenate(
        [
            np.stack([a, b, c], axis=1),
            np.stack([a, c, d], axis=1),
            np.stack([np.full(2 * rings, top), place[0], right[0]], axis=1),
            np.stack([np.full(2 * rings, bottom), right[-1], place[-1]], axis=1),
        ]
    )
    return points, faces


def sphere(*, textured: bool = False) -> Mesh:
    points, faces = ball()
    texcoords = points[:, :2] / 2 + 0.5
    return Mesh(
        points,
        points.copy(),
        texcoords if textured else None,
        faces,
        faces,
        faces if textured else np.zeros_like(faces),
    )


def numbers(values: np.ndarray) -> str:
    return " ".join(f"{value:.6g}" for value in np.ravel(values))


def scene(*, arm: str = "", pixels: str = "") -> mujoco.MjModel:
    """A ball that swings in front of a camera, above a floor, and falls on it."""
    points, faces = ball()
    return mujoco.MjModel.from_xml_string(f"""
    <mujoco>
      <asset>
        <mesh name="ball" vertex="{numbers(points)}" face="{numbers(faces)}" scale=".1 .1 .1"/>
      </asset>
      <worldbody>
        <light pos="1 -1 3" dir="-.3 .3 -1" castshadow="false"/>
        <geom type="plane" size="2 2 .1" rgba=".3 .4 .3 1"/>
        <body pos="0 0 .8">
          <joint name="swing" axis="0 1 0" range="-60 60"/>
          <geom type="mesh" mesh="ball" pos="0 0 -.4" rgba=".8 .3 .2 1"/>
        </body>
        <body pos=".3 0 .3"><freejoint/><geom type="mesh" mesh="ball" rgba=".2 .3 .8 1"/></body>
        <camera name="south" pos="0 -1.5 .5" xyaxes="1 0 0 0 0 1" fovy="45"/>
      </worldbody>
      <actuator><motor joint="swing"/></actuator>
    </mujoco>""")


def view(detail: str, size: int = 64) -> View:
    return View({"side": Camera("south", size, size)}, detail=detail)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "rlcore" / "meshes"


def play(detail: str) -> tuple[list[bytes], list[np.ndarray], mujoco.MjModel]:
    """States and frames of 60 steps with the same controls."""
    model = scene()
    prepare_model(model, view(detail))
    data = mujoco.MjData(model)
    renderers = Renderers(view(detail))
    renderers.join("balls")
    controls = np.random.default_rng(0).uniform(-1, 1, 60)
    states, frames = [], []
    for control in controls:
        data.ctrl[:] = control
        for _ in range(5):
            mujoco.mj_step(model, data)
        out = np.zeros((64, 64, 3), np.uint8)
        renderers.of("balls", model).draw(model, data, {"side": out})
        states.append(np.concatenate([data.qpos, data.qvel, data.qacc, data.sensordata]).tobytes())
        frames.append(out)
    renderers.leave("balls")
    return states, frames, model


def test_states_are_equal_and_frames_nearly() -> None:
    (exact, seen, model), (pixel, drawn, other) = play(EXACT), play(PIXEL)
    assert exact == pixel
    assert differing_arrays(model, other) == set()
    apart = np.abs(np.stack(seen).astype(int) - np.stack(drawn))
    assert 0 < apart.mean() < 0.3
    assert (apart.max(axis=-1) > 16).mean() < 0.005


@pytest.mark.long
def test_larger_frames_get_more_faces_and_exact_ones_all() -> None:
    model = scene()
    counts = [
        int(drawn_model(model, view(detail, size)).mesh_facenum[0])
        for detail, size in ((PIXEL, 32), (PIXEL, 128), (PIXEL, 512), (EXACT, 32))
    ]
    assert counts == sorted(counts) and counts[0] < counts[1] < counts[2]
    assert counts[-1] == model.mesh_facenum[0] and counts[0] < counts[-1] / 4
    assert drawn_model(model, view(EXACT)) is model


def test_the_geometry_is_that_of_the_model_as_it_was_built() -> None:
    model, moved = scene(), scene()
    for each in (model, moved):
        prepare_model(each, view(PIXEL))
    moved.body_pos[1] += (0.0, -1.0, 0.0)  # as an episode does
    one, other = (drawn_model(each, view(PIXEL)) for each in (model, moved))
    assert differing_arrays(one, other) == set()


def test_points_are_old_ones_and_none_is_half_a_pixel_off() -> None:
    mesh = sphere()
    pixel = 0.2
    simple = simplified(mesh, pixel)
    assert simple.points is mesh.points and len(simple.faces) < len(mesh.faces) / 3
    middles = mesh.points[simple.faces].mean(axis=1)
    assert (1 - np.linalg.norm(middles, axis=1)).max() < pixel / 2
    corners = simple.normals[simple.face_normals]  # of a sphere normals are points
    assert np.linalg.norm(corners - mesh.points[simple.faces], axis=-1).max() < 0.01


def test_large_textures_shrink_to_the_means_of_their_texels() -> None:
    model = mujoco.MjModel.from_xml_string("""
    <mujoco>
      <asset>
        <texture name="large" type="2d" builtin="flat" width="64" height="32"/>
        <texture name="odd" type="2d" builtin="flat" width="33" height="64"/>
        <texture name="small" type="2d" builtin="flat" width="16" height="16"/>
        <texture name="sky" type="skybox" builtin="flat" width="32" height="32"/>
      </asset>
    </mujoco>""")
    large, odd, small, sky = (model.texture(name) for name in ("large", "odd", "small", "sky"))
    texels = large.data.reshape(32, 64, 3)  # blocks of 4 x 4 texels become one
    texels[:4, :4] = [[[0, 100, 255], [2, 100, 255], [4, 100, 255], [6, 101, 254]]]
    texels[4:8] = 7
    others = [each.data.copy() for each in (odd, small, sky)]
    reduce_textures(model, 1)  # of frames of one row: 16 texels at most
    assert (large.height.item(), large.width.item()) == (8, 16)
    first, second = large.data.reshape(32, 64, 3).ravel()[: 8 * 16 * 3].reshape(8, 16, 3)[:2, 0]
    assert [*first] == [3, 100, 255]  # of 100.25 and 254.75
    assert [*second] == [7, 7, 7]
    assert (odd.height.item(), odd.width.item()) == (64, 33)
    for each, before in zip((odd, small, sky), others, strict=True):
        np.testing.assert_array_equal(each.data, before)


def test_texture_coordinates_stay_with_their_points() -> None:
    mesh = sphere(textured=True)
    simple = simplified(mesh, 0.2)
    assert simple.texcoords is not None and len(simple.faces) < len(mesh.faces) / 2
    there = simple.texcoords[simple.face_texcoords]
    assert np.abs(there - (mesh.points[simple.faces][..., :2] / 2 + 0.5)).max() < 0.001


def test_faces_that_are_not_seen_count_less() -> None:
    mesh = sphere()
    above = mesh.points[mesh.faces].mean(axis=1)[:, 2] > 0
    simple = simplified(mesh, 0.2, np.where(above, 1.0, 0.02))
    upper = mesh.points[simple.faces].mean(axis=1)[:, 2] > 0
    assert upper.sum() > 2 * (~upper).sum() > 0


WRIST = """<camera name="wrist" pos="0 -.2 -.2" xyaxes="1 0 0 0 0 1" fovy="90"/>"""


@pytest.mark.parametrize(
    ("body", "moves"),
    [
        ('<joint axis="0 0 1" range="-90 90"/>', True),  # an arm
        ('<body pos="0 0 .1"><joint type="slide" axis="0 0 1"/>{}<geom size=".01"/></body>', True),
        ("<freejoint/>", True),
        ("", False),  # a stand
    ],
    ids=["arm", "below", "free", "stand"],
)
def test_a_camera_that_moves_draws_exact_meshes(body: str, moves: bool) -> None:
    points, faces = ball()
    inside = body.format(WRIST) if "{}" in body else body + WRIST
    model = mujoco.MjModel.from_xml_string(f"""
    <mujoco>
      <asset>
        <mesh name="ball" vertex="{numbers(points)}" face="{numbers(faces)}" scale=".02 .02 .02"/>
        <texture name="large" type="2d" builtin="flat" width="1024" height="512"/>
      </asset>
      <worldbody>
        <body>{inside}<geom type="mesh" mesh="ball"/></body>
        <body pos="0 .3 -1"><freejoint/><geom name="thing" type="mesh" mesh="ball"/></body>
      </worldbody>
    </mujoco>""")
    seen = View({"wrist": Camera("wrist", 32, 32)}, detail=PIXEL)
    drawn = drawn_model(model, seen)
    assert (drawn.mesh_facenum[0] == model.mesh_facenum[0]) == moves
    assert (drawn.tex_height[0], drawn.tex_width[0]) == (256, 512)  # 16 times 32 rows at most
    assert (model.tex_height[0], model.tex_width[0]) == (512, 1024)


def test_a_free_body_comes_as_near_to_a_still_camera_as_moving_ones() -> None:
    points, faces = ball(8)
    model = mujoco.MjModel.from_xml_string(f"""
    <mujoco>
      <asset>
        <mesh name="ball" vertex="{numbers(points)}" face="{numbers(faces)}" scale=".02 .02 .02"/>
      </asset>
      <worldbody>
        <camera name="stand" fovy="90"/>
        <body><joint axis="0 0 1" range="-90 90"/>
          <geom name="finger" type="mesh" mesh="ball" pos="0 0 -.12"/>
        </body>
        <body pos="0 0 -1"><freejoint/><geom name="thing" type="mesh" mesh="ball"/></body>
        <geom name="table" type="mesh" mesh="ball" pos="0 0 -2"/>
      </worldbody>
    </mujoco>""")
    geoms = np.array([model.geom(name).id for name in ("finger", "thing", "table")])
    sight = Sight(model, Camera("stand", 100, 100), geoms)
    # the finger's nearest point is 0.10 m away, and so may the thing be; the table is 1.98 m away
    np.testing.assert_allclose(sight.near, [0.10, 0.10, 1.98], atol=2e-3)
    # a pixel is 2 tan(45 degrees) / 100 of the distance wide
    np.testing.assert_allclose(sight.widths, sight.near / 50)


def test_meshes_are_kept_and_damaged_ones_made_anew(folder: Path) -> None:
    model = scene()
    prepare_model(model, view(PIXEL))
    first = drawn_model(model, view(PIXEL))
    (file,) = folder.iterdir()
    whole, stamp = file.read_bytes(), file.stat().st_mtime_ns
    assert differing_arrays(first, drawn_model(model, view(PIXEL))) == set()
    assert file.stat().st_mtime_ns == stamp  # read, not made
    for damage in (b"", whole[:100], whole[:-200], b"x" * len(whole)):
        file.write_bytes(damage)
        assert differing_arrays(first, drawn_model(model, view(PIXEL))) == set()
        assert kept_meshes._read(file, sphere()) is not None
        assert [each.name for each in folder.iterdir()] == [file.name]


def test_a_kept_file_of_another_mesh_is_not_used(folder: Path) -> None:
    folder.mkdir(parents=True)
    mesh = sphere()
    small = dataclasses.replace(mesh, points=mesh.points[:10])
    kept_meshes._write(folder / "one.npz", mesh)
    assert kept_meshes._read(folder / "one.npz", mesh) is not None
    assert kept_meshes._read(folder / "one.npz", small) is None


def test_a_folder_that_cannot_be_written_to_is_no_obstacle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    model = scene()
    assert drawn_model(model, view(PIXEL)).mesh_facenum[0] < model.mesh_facenum[0]


def test_culling_outside_of_the_frame_changes_no_pixel(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, culled, _ = play(EXACT)
    calls = []
    monkeypatch.setattr(Outside, "leave_out", lambda *arguments: calls.append(1))
    _, whole, _ = play(EXACT)
    assert calls
    np.testing.assert_array_equal(np.stack(culled), np.stack(whole))


@pytest.mark.parametrize(
    "lens",
    [
        'fovy="2" orthographic="true"',
        'resolution="64 64" sensorsize="1 1" focal="1 1" principal=".4 .3"',
    ],
    ids=["orthographic", "off centre"],
)
def test_other_lenses_show_all_that_is_in_view(lens: str, monkeypatch: pytest.MonkeyPatch) -> None:
    places = [(x, z) for x in (-1.5, -0.8, 0, 0.8, 1.5) for z in (-1.2, -0.5, 0, 0.5, 1.2)]
    balls = "".join(f'<geom size=".1" pos="{x} 0 {z}"/>' for x, z in places)
    model = mujoco.MjModel.from_xml_string(
        f"""<mujoco><worldbody>{balls}
        <camera name="south" pos="0 -1.5 0" xyaxes="1 0 0 0 0 1" {lens}/></worldbody></mujoco>"""
    )
    prepare_model(model, view(EXACT))
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    culled, whole = np.zeros((2, 64, 64, 3), np.uint8)
    renderer = Renderer(model, view(EXACT))
    renderer.draw(model, data, {"side": culled})
    monkeypatch.setattr(Outside, "leave_out", lambda *arguments: None)
    renderer.draw(model, data, {"side": whole})
    renderer.close()
    np.testing.assert_array_equal(culled, whole)
    assert whole.any()
