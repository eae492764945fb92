"""The documents' observation: which camera is which, types, sentences, and what it refuses. Shapes
are those of an env's spec, which the conformance checks compare with its observations."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from rlcore_rlinf.observation import as_printed

from rlcore.contracts.errors import ConfigError
from rlcore.contracts.specs import CameraSpec, EnvSpec, StateChannel

SPEC = EnvSpec(
    name="two_arms",
    tasks=("cup",),
    instructions=("Use an arm to place the empty cup on the coaster.",),
    train_trials=range(1),
    heldout_trials=range(1, 2),
    cameras=(CameraSpec("head", 4, 6), CameraSpec("left", 2, 3), CameraSpec("right", 2, 3)),
    states=(StateChannel("joints", 3),),
    actions=(),
    max_episode_steps=1,
)


def observation(spec=SPEC):
    """Two rows; each camera's pixels are its place in the spec, plus the row."""
    return {
        "cameras": {  # in another order than the spec's, which counts
            camera.name: np.stack(
                [
                    np.full((camera.height, camera.width, 3), 10 * n + row, np.uint8)
                    for row in (0, 1)
                ]
            )
            for n, camera in reversed(list(enumerate(spec.cameras)))
        },
        "states": np.arange(6, dtype=np.float32).reshape(2, 3),
        "task_descriptions": ["Use an arm to place the empty cup on the coaster.", "press A"],
        "elapsed": np.zeros(2, np.float32),
    }


def test_tensors_are_those_that_are_printed():
    printed = as_printed(observation(), SPEC)
    assert list(printed) == ["images", "wrist_images", "states", "task_descriptions"]
    assert printed["images"].shape == (2, 4, 6, 3)
    assert printed["images"].dtype == torch.uint8
    assert printed["images"][:, 0, 0, 0].tolist() == [0, 1]
    assert printed["wrist_images"].shape == (2, 2, 2, 3, 3)
    assert printed["wrist_images"].dtype == torch.uint8
    assert printed["wrist_images"][:, :, 0, 0, 0].tolist() == [[10, 20], [11, 21]]
    assert printed["states"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert printed["states"].dtype == torch.float32


def test_instructions_stand_in_a_question_or_alone():
    assert as_printed(observation(), SPEC)["task_descriptions"] == [
        "What action should the robot take to use an arm to place the empty cup on the coaster?",
        "What action should the robot take to press a?",
    ]
    alone = as_printed(observation(), SPEC, question=False)["task_descriptions"]
    assert alone == observation()["task_descriptions"]


def test_one_camera_leaves_no_wrists():
    spec = replace(SPEC, cameras=SPEC.cameras[:1])
    assert as_printed(observation(spec), spec)["wrist_images"] is None


@pytest.mark.parametrize(
    ("cameras", "words"),
    [
        ((), ["two_arms"]),
        ((*SPEC.cameras[:2], CameraSpec("right", 2, 4)), ["left 2x3", "right 2x4"]),
    ],
)
def test_cameras_that_can_not_be_printed_are_refused(refused, cameras, words):
    spec = replace(SPEC, cameras=cameras)
    with refused(ConfigError, *words):
        as_printed(observation(spec), spec)
