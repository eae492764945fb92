"""An env on paper and observations of it, for the plugin's tests."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from rlcore.protocols import Demonstration, Observation
from rlcore.specs import ActionChannel, CameraSpec, EnvSpec, Episode, StateChannel

SENTENCES = ("push the red button down", "open the drawer by its handle")


def make_env_spec(*, state: int = 4, action: int = 4, cameras: int = 1) -> EnvSpec:
    return EnvSpec(
        name="paper",
        tasks=("push", "open"),
        descriptions=SENTENCES,
        train_trials=range(10),
        heldout_trials=range(10, 20),
        cameras=tuple(CameraSpec(f"camera{i}", 48, 64) for i in range(cameras)),
        states=(StateChannel("position", state),),
        actions=(ActionChannel("ee_delta_position", action),),
        max_episode_steps=40,
        has_expert=True,
    )


def make_observation(spec: EnvSpec, rows: int, seed: int = 0) -> Observation:
    rng = np.random.default_rng(seed)
    return {
        "cameras": {
            camera.name: rng.integers(
                0, 256, (rows, camera.height, camera.width, 3), dtype=np.uint8
            )
            for camera in spec.cameras
        },
        "states": rng.uniform(-0.9, 0.9, (rows, spec.state_dim)).astype(np.float32),
        "task_descriptions": [SENTENCES[row % 2] for row in range(rows)],
        "elapsed": rng.uniform(0, 1, rows).astype(np.float32),
    }


def make_demonstration(spec: EnvSpec, length: int, seed: int = 0) -> Demonstration:
    """Actions follow from the state alone, so that a little training shows."""
    rng = np.random.default_rng(seed)
    steps = np.arange(0, length, 2)
    states = rng.uniform(-1, 1, (length, spec.state_dim)).astype(np.float32)
    camera = spec.cameras[0]
    frames = np.full((len(steps), camera.height, camera.width, 3), 128, dtype=np.uint8)
    return Demonstration(
        episode=Episode(0, seed),
        task_description=SENTENCES[0],
        frames={camera.name: frames},
        frame_steps=steps.astype(np.int64),
        states=states,
        actions=np.clip(0.5 * states[:, : spec.action_dim] + 0.1, -1, 1).astype(np.float32),
        success=True,
    )


@pytest.fixture
def env_spec() -> EnvSpec:
    return make_env_spec()


@pytest.fixture
def other_env() -> Callable[..., EnvSpec]:
    return make_env_spec


@pytest.fixture
def observe() -> Callable[..., Observation]:
    return make_observation


@pytest.fixture
def demonstrate() -> Callable[..., Demonstration]:
    return make_demonstration
