"""Facts of the env in a policy's folder, and their differences."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rlcore.contracts.errors import CheckpointError
from rlcore.contracts.specs import ActionChannel, CameraSpec, EnvSpec, StateChannel
from rlcore.runs.env_facts import FILE, EnvFacts, read_env_facts, write_env_facts

SPEC = EnvSpec(
    name="desk",
    tasks=("reach",),
    instructions=("reach the cube",),
    train_trials=range(0, 10),
    heldout_trials=range(10, 20),
    cameras=(CameraSpec("wrist", 2, 2), CameraSpec("front", 4, 6)),
    states=(StateChannel("gripper position", 3),),
    actions=(ActionChannel("ee_delta_position", 3),),
    max_episode_steps=50,
    render_settings={"fast_render": True, "scale": 2},
)


def test_a_round_trip_is_exact(tmp_path):
    assert read_env_facts(tmp_path) is None  # published policies have no such file
    write_env_facts(tmp_path, SPEC)
    read = read_env_facts(tmp_path)
    assert read == FACTS
    assert list(read.cameras) == ["wrist", "front"]
    assert not [*read.differences(FACTS), *read.rendering_differences(FACTS)]


FACTS = EnvFacts.from_spec(SPEC)


def differences(**change: object) -> list[tuple[str, object, object]]:
    return [*FACTS.differences(EnvFacts.from_spec(replace(SPEC, **change)))]


def test_actions_and_cameras_are_compared():
    ((fact, here, there),) = differences(actions=(replace(SPEC.actions[0], low=-0.1, high=0.1),))
    assert fact == "actions"
    assert "ee_delta_position" in here and "[-1, 1]" in here and "[-0.1, 0.1]" in there
    ((fact, here, there),) = differences(actions=(*SPEC.actions, *SPEC.actions))
    assert (fact, there) == ("action entries", 2 * here)
    swapped = differences(cameras=SPEC.cameras[::-1])
    assert swapped == [("cameras", ["wrist", "front"], ["front", "wrist"])]


def test_pixels_are_compared_on_request():
    """Policies resize images."""
    cameras = tuple(replace(camera, height=99) for camera in SPEC.cameras)
    assert differences(cameras=cameras) == []
    larger = EnvFacts.from_spec(replace(SPEC, cameras=cameras))
    ((fact, here, there),) = FACTS.differences(larger, pixels=True)
    assert (fact, here["wrist"], there["wrist"][0]) == ("cameras", [2, 2], 99)


def test_rendering_is_compared_on_request():
    settings = {"fast_render": False, "gl": "egl"}
    assert differences(render_settings=settings) == []
    other = EnvFacts.from_spec(replace(SPEC, render_settings=settings))
    assert [*FACTS.rendering_differences(other)] == [("fast_render", True, False)]
    assert [*FACTS.differences(other, pixels=True)] == [("fast_render", True, False)]


@pytest.mark.parametrize("text", ["{", "[]", '{"env": "desk"}'])
def test_a_damaged_file_is_refused(refused, tmp_path, text):
    (tmp_path / FILE).write_text(text)
    with refused(CheckpointError, FILE, text=False):
        read_env_facts(tmp_path)
