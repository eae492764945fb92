"""A small env, its episodes, and how they are written and read, for tests of LeRobot's files."""

from __future__ import annotations

import numpy as np
from rlcore_data_lerobot.dataset import LeRobotSet

from rlcore.config.schema import CollectConfig
from rlcore.contracts.protocols import Demonstration
from rlcore.contracts.specs import ActionChannel, CameraSpec, EnvSpec, Episode, StateChannel

SPEC = EnvSpec(
    name="desk",
    tasks=("reach", "push"),
    instructions=("reach the cube", "push the cube"),
    train_trials=range(0, 100),
    heldout_trials=range(100, 200),
    cameras=(CameraSpec("wrist", 16, 16), CameraSpec("front", 24, 32)),  # not as files sort them
    states=(StateChannel("gripper position", 3),),
    actions=(ActionChannel("ee_delta_position", 3), ActionChannel("gripper", 1)),
    max_episode_steps=50,
)
COLLECT = CollectConfig(episodes_per_task=3)
ERROR = 12  # of 255: what AV1 at crf 30 changes an entry of these frames by, at most


def demonstration(task=0, trial=0, success=True, length=7):
    """Smooth pictures that move, and distinct numbers."""
    random = np.random.default_rng([task, trial])

    def frames(height, width):
        y, x = np.mgrid[:height, :width]
        moved = [np.stack([60 + 2 * x + 3 * i, 60 + 2 * y, 90 + x + y], -1) for i in range(length)]
        return np.stack(moved).astype(np.uint8)

    return Demonstration(
        episode=Episode(task, trial, 0, group=4),
        instruction=SPEC.instructions[task] + " — now",
        frames={"wrist": frames(16, 16), "front": frames(24, 32)},
        frame_steps=np.arange(length),
        states=random.normal(size=(length, 3)).astype(np.float32),
        actions=random.uniform(-1, 1, size=(length, 4)).astype(np.float32),
        success=success,
    )


def written(form, path, demonstrations, spec=SPEC):
    with form.write(path, spec, COLLECT, seed=1, interpreters=()) as writer:
        for demo in demonstrations:
            writer.add(demo)


def everything(data: LeRobotSet):
    """Its successful episodes."""
    return list(data.split(0.0, 0)[0])
