"""Pixels: never black, the same without the reflection pass, upright, and MetaWorld's own."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from metaworld.env_dict import ALL_V3_ENVIRONMENTS
from metaworld.types import Task
from metaworld_cases import (
    BUTTON,
    CAMERA,
    CAMERAS,
    REACH,
    EnvMaker,
    needs_new_camera,
    small_config,
    view_of,
)
from rlcore_env_metaworld.cameras import WRIST
from rlcore_env_metaworld.pool import make_pool
from rlcore_env_metaworld.simulator import MetaWorldSimulator
from rlcore_env_metaworld.spec import view_of as metaworld_view
from rlcore_mujoco.render import Renderers
from rlcore_mujoco.view import View

from rlcore.contracts.specs import Episode

SIZE = 48


def frame_of(view: View, task: str = BUTTON, trial: int = 0) -> np.ndarray:
    return drawn(started(view, task, trial))


def started(view: View, task: str = BUTTON, trial: int = 0) -> MetaWorldSimulator:
    simulator = MetaWorldSimulator(small_config(settle_steps=0), task, Renderers(view))
    simulator.start(Episode(0, trial))
    return simulator


def drawn(simulator: MetaWorldSimulator) -> np.ndarray:
    out = np.zeros((SIZE, SIZE, 3), dtype=np.uint8)
    (camera,) = simulator._renderers.view.cameras
    simulator.draw({camera: out})
    return out


def gymnasium_env(task: str, layout: np.ndarray):
    """MetaWorld with gymnasium's renderer, in the start of a layout."""
    cls = ALL_V3_ENVIRONMENTS[task]
    env = cls(render_mode="rgb_array", camera_name="corner2", width=SIZE, height=SIZE)
    data = {"rand_vec": layout, "env_cls": cls, "partially_observable": False}
    env.set_task(Task(env_name=task, data=pickle.dumps(data)))
    env.model.cam_pos[env.model.camera("corner2").id] = [0.75, 0.075, 0.7]
    env.model.vis.global_.offwidth = env.model.vis.global_.offheight = SIZE
    env.reset()
    return env


def test_the_frame_of_each_of_two_cameras_is_the_one_it_draws_alone() -> None:
    """The view of published results, and the camera at the wrist."""
    config = small_config(image_size=SIZE, wrist_camera=True)
    frames = {name: np.zeros((SIZE, SIZE, 3), dtype=np.uint8) for name in (CAMERA, WRIST)}
    started(metaworld_view(config)).draw(frames)
    for name, frame in frames.items():
        assert np.array_equal(frame, frame_of(view_of(name, SIZE, fast=True)))
    assert not np.array_equal(*frames.values())


def test_simulators_of_a_task_share_a_renderer_without_mixing() -> None:
    view = view_of(CAMERA, SIZE, fast=True)
    settings = {"tasks": [REACH, BUTTON], "image_size": SIZE, "settle_steps": 0}
    pool = make_pool(small_config(**settings, cached_simulators=0))
    one, two = pool.take(0), pool.take(0)
    assert one is not two and one.task == two.task == REACH
    one.start(Episode(0, 0))
    two.start(Episode(0, 1))
    expected = {trial: frame_of(view, REACH, trial) for trial in (0, 1)}
    assert np.array_equal(drawn(two), expected[1])
    shared = two._renderers.of(REACH, two._env.model)
    assert np.array_equal(drawn(one), expected[0])
    assert one._renderers.of(REACH, one._env.model) is shared
    pool.give_back(one)  # cached_simulators 0: dropped at once, the renderer stays for the other
    two.start(Episode(0, 0))
    assert np.array_equal(drawn(two), expected[0])
    assert two._renderers.of(REACH, two._env.model) is shared
    pool.close()  # the last one takes the renderer with it
    assert two._renderers._renderers == {}


@pytest.mark.quick(1)
@pytest.mark.parametrize("fast", [True, False])
def test_the_reflection_pass_changes_no_pixel(fast: bool) -> None:
    without = frame_of(view_of(CAMERA, SIZE, fast=fast))
    with_pass = frame_of(view_of(CAMERA, SIZE, fast=fast, reflection=True))
    np.testing.assert_array_equal(without, with_pass)
    assert without.std() > 10


@pytest.mark.quick(4)
@pytest.mark.parametrize("camera", CAMERAS)
def test_only_three_cameras_see_what_the_walls_reflect(camera: str) -> None:
    frames = []
    for reflection in (False, True):
        simulator = started(view_of(camera, SIZE, fast=True, reflection=reflection))
        frames.append(drawn(simulator))
    differ = (frames[0] != frames[1]).any(axis=-1).mean()
    assert (differ > 0) == (camera in ("corner", "corner2", "corner3"))
    assert differ < 0.04


def test_frames_are_metaworlds_own_turned_upright() -> None:
    view = view_of(CAMERA, SIZE)
    simulator = started(view)
    ours = drawn(simulator)
    theirs = gymnasium_env(BUTTON, simulator._env._last_rand_vec.copy())
    np.testing.assert_array_equal(ours, theirs.render()[::-1, ::-1])
    theirs.close()


@needs_new_camera
def test_published_view_is_corner4_with_the_same_turn() -> None:
    published = frame_of(view_of(CAMERA, SIZE, fast=True))
    np.testing.assert_array_equal(published, frame_of(view_of("corner4", SIZE, fast=True)))
    assert not np.array_equal(published, frame_of(view_of("corner2", SIZE, fast=True)))


@pytest.mark.parametrize("size", [17, 600])
def test_any_resolution(make: EnvMaker, size: int) -> None:
    observation, _ = make(1, 0, image_size=size).reset(options={"episodes": [Episode(0, 0)]})
    frame = observation["cameras"][CAMERA]
    assert frame.shape == (1, size, size, 3) and frame.dtype == np.uint8
    assert frame[0].std() > 10
    assert frame[0, -1].any() and frame[0, :, -1].any()  # drawn to the last row and column
