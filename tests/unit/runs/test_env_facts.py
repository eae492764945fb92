"""What a policy's folder says of its env."""

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


def test_a_round_trip_finds_nothing_different(tmp_path):
    assert read_env_facts(tmp_path) is None  # published ones say nothing
    write_env_facts(tmp_path, SPEC)
    read = read_env_facts(tmp_path)
    assert read == EnvFacts.from_spec(SPEC)
    assert list(read.cameras) == ["wrist", "front"]
    assert [
        *read.differences(EnvFacts.from_spec(SPEC)),
        *read.rendering_differences(EnvFacts.from_spec(SPEC)),
    ] == []


def test_what_is_different_is_named():
    metres = replace(SPEC, actions=(replace(SPEC.actions[0], low=-0.1, high=0.1),))
    ((what, here, there),) = EnvFacts.from_spec(SPEC).differences(EnvFacts.from_spec(metres))
    assert (what, here["low"], there["low"]) == ("actions", -1.0, -0.1)
    wider = replace(SPEC, actions=(*SPEC.actions, *SPEC.actions))
    ((what, here, there),) = EnvFacts.from_spec(SPEC).differences(EnvFacts.from_spec(wider))
    assert (what, there) == ("action entries", 2 * here)
    swapped = replace(SPEC, cameras=SPEC.cameras[::-1])
    assert [*EnvFacts.from_spec(SPEC).differences(EnvFacts.from_spec(swapped))] == [
        ("cameras", ["wrist", "front"], ["front", "wrist"])
    ]
    larger = replace(SPEC, cameras=tuple(replace(one, height=99) for one in SPEC.cameras))
    assert [
        *EnvFacts.from_spec(SPEC).differences(EnvFacts.from_spec(larger))
    ] == []  # policies resize
    ((what, here, there),) = EnvFacts.from_spec(SPEC).differences(
        EnvFacts.from_spec(larger), pixels=True
    )
    assert what == "cameras" and here["wrist"][0] != 99 and there["wrist"][0] == 99
    drawn = replace(SPEC, render_settings={"fast_render": False, "gl": "egl"})
    assert [*EnvFacts.from_spec(SPEC).rendering_differences(EnvFacts.from_spec(drawn))] == [
        ("fast_render", True, False)
    ]
    assert [*EnvFacts.from_spec(SPEC).differences(EnvFacts.from_spec(drawn))] == []
    assert [*EnvFacts.from_spec(SPEC).differences(EnvFacts.from_spec(drawn), pixels=True)] == [
        ("fast_render", True, False)
    ]


@pytest.mark.parametrize("text", ["{", "[]", '{"env": "desk"}'])
def test_a_damaged_file_is_named(tmp_path, text):
    (tmp_path / FILE).write_text(text)
    with pytest.raises(CheckpointError, match=f"{FILE} is damaged"):
        read_env_facts(tmp_path)
