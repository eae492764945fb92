"""Fake an env for tests of policies: a spec, random observations, demonstrations; no simulator."""

from __future__ import annotations

import numpy as np

from rlcore.contracts.protocols import Demonstration, Observation
from rlcore.contracts.specs import ActionChannel, CameraSpec, EnvSpec, Episode, StateChannel

SENTENCES = ("push the red button down", "open the drawer by its handle")


def fake_env(*, state: int = 4, action: int = 4, cameras: int = 1) -> EnvSpec:
    """Return a spec of two tasks, with cameras of 48 x 64 pixels and episodes of 40 steps.

    Args:
        state: entries of the state.
        action: entries of an action.
        cameras: number of cameras.
    """
    return EnvSpec(
        name="fake",
        tasks=("push", "open"),
        instructions=SENTENCES,
        train_trials=range(10),
        heldout_trials=range(10, 20),
        cameras=tuple(CameraSpec(f"camera{i}", 48, 64) for i in range(cameras)),
        states=(StateChannel("position", state),),
        actions=(ActionChannel("ee_delta_position", action),),
        max_episode_steps=40,
        has_expert=True,
    )


def fake_observation(spec: EnvSpec, rows: int, seed: int = 0) -> Observation:
    """Return random pixels, states and elapsed times; rows cycle through the instructions."""
    rng = np.random.default_rng(seed)
    return {
        "cameras": {
            camera.name: rng.integers(
                0, 256, (rows, camera.height, camera.width, 3), dtype=np.uint8
            )
            for camera in spec.cameras
        },
        "states": rng.uniform(-0.9, 0.9, (rows, spec.state_dim)).astype(np.float32),
        "task_descriptions": [spec.instructions[i % len(spec.tasks)] for i in range(rows)],
        "elapsed": rng.uniform(0, 1, rows).astype(np.float32),
    }


def fake_demonstration(spec: EnvSpec, length: int, seed: int = 0) -> Demonstration:
    """Return a demonstration of `length` steps, with a grey frame before every second step.

    An action is half of each state entry plus 0.1: a linear function of the state, which few
    training steps fit.
    """
    rng = np.random.default_rng(seed)
    steps = np.arange(0, length, 2, dtype=np.int64)
    states = rng.uniform(-1, 1, (length, spec.state_dim)).astype(np.float32)
    entries = np.resize(np.arange(max(spec.state_dim, 1)), spec.action_dim)
    entries_used = states[:, entries] if spec.state_dim else np.zeros((length, spec.action_dim))
    return Demonstration(
        episode=Episode(0, seed),
        instruction=spec.instructions[0],
        frames={
            camera.name: np.full((len(steps), camera.height, camera.width, 3), 128, dtype=np.uint8)
            for camera in spec.cameras
        },
        frame_steps=steps,
        states=states,
        actions=np.clip(0.5 * entries_used + 0.1, -1, 1).astype(np.float32),
        success=True,
    )
