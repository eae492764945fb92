"""A data set of a two-camera arm as somebody else records it, for tests of descriptions."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from lerobot_cases import written
from rlcore_data_lerobot import formats

from rlcore.contracts.protocols import Demonstration
from rlcore.contracts.specs import ActionChannel, CameraSpec, EnvSpec, Episode, StateChannel

JOINTS = ("shoulder.pos", "elbow.pos", "wrist.pos")
NAMES = [*JOINTS, "gripper.pos"]
SENTENCES = ("pick the cube", "open the drawer")
SPEC = EnvSpec(
    name="arm",
    tasks=SENTENCES,
    instructions=SENTENCES,
    train_trials=range(100),
    heldout_trials=range(100, 200),
    cameras=(CameraSpec("top", 32, 32), CameraSpec("wrist", 24, 32)),
    states=(StateChannel("qpos", 4),),
    actions=(ActionChannel("joint_position", 4, -500.0, 500.0),),
    max_episode_steps=50,
)
EPISODES, LENGTH = 6, 12
DESCRIPTION = """\
data: arm
cameras:
  top: observation.images.top
  wrist: observation.images.wrist
states:
  state: {from: observation.state, scale: 1}
actions:
  joint_position: {from: "action[0:3]", scale: 1, range: [-1.6, 1.6], convention: target in rad}
  gripper: {from: "action[3]", scale: 1, range: [0, 1], convention: 1 is open}
"""


def demonstration(number: int, *, unit: float = 1.0) -> Demonstration:
    """An episode: joints that turn by up to half a radian, a gripper that closes halfway.

    The target of a joint is where the joint is one step later. The scene is bright from the top and
    dark at the wrist.

    Args:
        unit: factor of the targets of the joints; 180 / pi for degrees.
    """
    steps = np.arange(LENGTH + 1)
    joints = np.stack([0.5 * np.sin(0.3 * steps + k + number) for k in range(3)], 1)
    gripper = (steps < LENGTH / 2).astype(float)[:, None]
    pose = np.concatenate([joints, gripper], 1).astype(np.float32)
    actions = pose[1:].copy()
    actions[:, :3] *= unit
    pictures = {"top": (200, 32, 32), "wrist": (40, 24, 32)}
    frames = {
        name: np.full((LENGTH, height, width, 3), grey, np.uint8)
        for name, (grey, height, width) in pictures.items()
    }
    for step in range(LENGTH):  # the arm is a red square that moves with its first joint
        place = int(10 + 8 * pose[step, 0])
        frames["top"][step, place : place + 6, 10:16] = (220, 30, 30)
    return Demonstration(
        episode=Episode(number % len(SENTENCES), number),
        instruction=SENTENCES[number % len(SENTENCES)],
        frames=frames,
        frame_steps=np.arange(LENGTH),
        states=pose[:-1],
        actions=actions,
        success=True,
    )


def arm(path: Path, *, unit: float = 1.0) -> Path:
    """Write the data set without any file of rlcore's own; return its folder."""
    episodes = [demonstration(number, unit=unit) for number in range(EPISODES)]
    written(formats.LeRobotV3Images(), path, episodes, SPEC)
    for name in ("rlcore.json", "rlcore_episodes.jsonl"):
        (path / "meta" / name).unlink()
    file = path / "meta/info.json"
    info = json.loads(file.read_text())
    for feature in ("observation.state", "action"):
        info["features"][feature]["names"] = NAMES
    del info["features"]["next.success"]
    file.write_text(json.dumps(info))
    return path


def described(folder: Path, text: str = DESCRIPTION) -> Path:
    """Write a description beside the data set; return its file."""
    file = folder / "arm.yaml"
    file.write_text(text)
    return file
