"""Convert observations to the arrays that a decision is made of, without LeRobot.

Names have no dots, as LeRobot's features have: networks of algorithms are called like them.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from rlcore.contracts.errors import ConfigError
from rlcore.contracts.protocols import Inputs, Observation
from rlcore_model_lerobot.spec import TEXT


def inputs_of(observation: Observation, cameras: Iterable[str]) -> Inputs:
    """Return frames, the state, and the instruction as bytes of UTF-8.

    Args:
        observation: what the env shows.
        cameras: cameras of the env, in the policy's order.

    Raises:
        ConfigError: an instruction is too long.
    """
    return {
        **{
            image_name(number): observation["cameras"][camera]
            for number, camera in enumerate(cameras)
        },
        "state": observation["states"].astype(np.float32),
        "task": np.stack([_encoded(text) for text in observation["task_descriptions"]]),
        "elapsed": observation["elapsed"],
    }


def image_name(number: int) -> str:
    """Return the name of the frames of a picture among the inputs."""
    return f"image_{number}"


def decoded(codes: np.ndarray) -> str:
    """Return the instruction of a row of the input "task"."""
    return bytes(codes[codes >= 0].astype(np.uint8)).decode()


def _encoded(text: str) -> np.ndarray:
    """Return the UTF-8 bytes of an instruction, int16 `[TEXT]`, with -1 after its end."""
    data = np.frombuffer(text.encode(), np.uint8)
    if len(data) > TEXT:
        raise ConfigError(
            f"an instruction has {len(data)} bytes, at most {TEXT} are stored: {text[:60]!r}...",
            hint="shorten it",
        )
    codes = np.full(TEXT, -1, np.int16)
    codes[: len(data)] = data
    return codes
