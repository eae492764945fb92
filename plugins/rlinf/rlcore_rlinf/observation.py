"""Present an observation under the names in RLinf's documents, as tensors.

Nothing in rlcore reads this view, and no policy gets it (docs/coming-from-rlinf.md).
"""

from __future__ import annotations

from typing import TypedDict

import torch

from rlcore.contracts.errors import ConfigError
from rlcore.contracts.protocols import Observation
from rlcore.contracts.specs import EnvSpec

QUESTION = "What action should the robot take to {}?"


class RLinfObservation(TypedDict):
    """An observation of B envs as RoboTwin's page of RLinf's documents prints it.

    images: uint8 `[B, H, W, 3]`, frames of the env's first camera.
    wrist_images: uint8 `[B, cameras, H, W, 3]`, frames of its other cameras, in its order; None
        without any.
    states: float32 `[B, S]`, in the env's units.
    task_descriptions: B instructions.
    """

    images: torch.Tensor
    wrist_images: torch.Tensor | None
    states: torch.Tensor
    task_descriptions: list[str]


def as_printed(
    observation: Observation, spec: EnvSpec, *, question: bool = True
) -> RLinfObservation:
    """Convert an observation to that of the documents, which have no name for `elapsed`.

    Args:
        observation: observation of an env; `images` and `states` share its memory.
        spec: spec of that env.
        question: put each instruction into :data:`QUESTION`, in lower case and without its full
            stop, as the page prints it. False: the instruction alone, as RLinf's envs return it;
            RLinf's and rlcore's models ask the question themselves.

    Raises:
        ConfigError: the env has no camera, or its cameras besides the first differ in size.
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
    frames = {name: torch.from_numpy(pixels) for name, pixels in observation["cameras"].items()}
    instructions = list(observation["task_descriptions"])
    if question:
        instructions = [QUESTION.format(text.rstrip(".").lower()) for text in instructions]
    others = [frames[camera.name] for camera in wrists]
    return {
        "images": frames[head.name],
        "wrist_images": torch.stack(others, dim=1) if others else None,
        "states": torch.from_numpy(observation["states"]),
        "task_descriptions": instructions,
    }
