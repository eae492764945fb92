"""A small data set: an env's facts, episodes of distinct numbers, and writing them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from rlcore.config.schema import CollectConfig
from rlcore.contracts.errors import CheckpointError
from rlcore.contracts.protocols import Demonstration
from rlcore.contracts.specs import ActionChannel, CameraSpec, EnvSpec, Episode, StateChannel
from rlcore.demonstrations.frames import LazyFrames
from rlcore.demonstrations.safetensors_format import DemonstrationSet, DemonstrationWriter

SPEC = EnvSpec(
    name="desk",
    tasks=("reach", "push"),
    instructions=("reach the cube", "push the cube"),
    train_trials=range(0, 100),
    heldout_trials=range(100, 200),
    cameras=(CameraSpec("wrist", 2, 2), CameraSpec("front", 4, 6)),  # not as files sort them
    states=(StateChannel("gripper position", 3),),
    actions=(ActionChannel("ee_delta_position", 3), ActionChannel("gripper", 1)),
    max_episode_steps=50,
    render_settings={"fast_render": True},
)
COLLECT = CollectConfig(episodes_per_task=3, stride=2)


def demonstration(task=0, trial=0, success=True, length=5):
    """Distinct numbers everywhere: a frame before every second step."""
    random = np.random.default_rng([task, trial])
    steps = np.arange(0, length, 2)
    return Demonstration(
        episode=Episode(task, trial, 0, group=4),
        instruction=SPEC.instructions[task] + " — now",
        frames={
            "front": random.integers(0, 255, (len(steps), 4, 6, 3), dtype=np.uint8),
            "wrist": random.integers(0, 255, (len(steps), 2, 2, 3), dtype=np.uint8),
        },
        frame_steps=steps,
        states=random.normal(size=(length, 3)).astype(np.float32),
        actions=random.normal(size=(length, 4)).astype(np.float32),
        success=success,
    )


def write(path, demonstrations):
    with DemonstrationWriter(path, SPEC, COLLECT, seed=1) as writer:
        for demo in demonstrations:
            writer.add(demo)
    return DemonstrationSet(path)


@dataclass(frozen=True)
class Grey:
    """Reads frames whose brightness says which episode and which frame they are."""

    episode: int

    def __call__(self, which: Sequence[int]) -> np.ndarray:
        if self.episode == MISSING:
            raise CheckpointError("file 99 is missing", hint="copy it")
        if self.episode == DEADLY:
            os._exit(3)
        shades = np.array([40 * self.episode + frame for frame in which], np.uint8)
        return np.broadcast_to(shades[:, None, None, None], (len(shades), 4, 6, 3)).copy()


MISSING = 99
DEADLY = 98


def lazy(number: int, length: int = 9) -> Demonstration:
    """A demonstration whose frames are read when asked for."""
    demo = demonstration(number % 2, number, length=length)
    frames = LazyFrames({"front": Grey(number)}, len(demo.frame_steps))
    return replace(demo, frames=frames, weight=1.0 + number)
