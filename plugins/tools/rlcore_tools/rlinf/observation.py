"""Present an observation under the names in RLinf's documents, as tensors.

A view: nothing in rlcore reads it, and no policy is given it (docs/observation.md).
"""

from __future__ import annotations

from typing import TypedDict

import torch

from rlcore.contracts.errors import ConfigError
from rlcore.contracts.protocols import Observation
from rlcore.contracts.specs import EnvSpec

QUESTION = "What action should the robot take to {}?"


class Printed(TypedDict):
    """What RoboTwin's page prints of B envs.

    images: uint8 `[B, H, W, 3]`, of the env's first camera.
    wrist_images: uint8 `[B, cameras, H, W, 3]`, of its others, in its order; None without any.
    states: float32 `[B, S]`, in the env's units.
    task_descriptions: B sentences.
    """

    images: torch.Tensor
    wrist_images: torch.Tensor | None
    states: torch.Tensor
    task_descriptions: list[str]


def as_printed(observation: Observation, spec: EnvSpec, *, question: bool = True) -> Printed:
    """An observation of `spec`'s env as the documents print it; `elapsed` has no name there.

    Args:
        observation: as the env gives it. `images` and `states` share its memory.
        spec: of the env that gave it.
        question: put each sentence into :data:`QUESTION`, in lower case and without its full
            stop, as the page prints it. False: the sentence alone, which is what RLinf's envs
            return; its models ask the question, and ours do too.

    Raises:
        ConfigError: the env has no camera, or the others than its first differ in size.
    """
    if not spec.cameras:
        raise ConfigError(
            f"env {spec.name} has no camera under these settings, and the documents' observation "
            "begins with its images",
            hint="choose settings with cameras: rlcore train --help env.train",
        )
    head, *wrists = spec.cameras
    if len({(camera.height, camera.width) for camera in wrists}) > 1:
        sizes = ", ".join(f"{camera.name} {camera.height}x{camera.width}" for camera in wrists)
        raise ConfigError(f"wrist_images is one tensor, and cameras differ in size: {sizes}")
    frames = {name: torch.from_numpy(each) for name, each in observation["cameras"].items()}
    said = observation["task_descriptions"]
    asked = [QUESTION.format(sentence.rstrip(".").lower()) for sentence in said]
    return {
        "images": frames[head.name],
        "wrist_images": torch.stack([frames[w.name] for w in wrists], dim=1) if wrists else None,
        "states": torch.from_numpy(observation["states"]),
        "task_descriptions": asked if question else list(said),
    }
