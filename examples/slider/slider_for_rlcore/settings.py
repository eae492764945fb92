"""Keys and facts of the env. Imports no simulator: every dry run reads this."""

from __future__ import annotations

from dataclasses import dataclass

from rlcore.config.schema import EnvConfig, key
from rlcore.contracts.specs import ActionChannel, CameraSpec, EnvSpec, StateChannel


@dataclass
class SliderConfig(EnvConfig):
    """A cart on a rail."""

    speed: float = key("distance covered by a full action in one step", 0.2, exclusive_minimum=0)


def env_spec(config: SliderConfig) -> EnvSpec:
    return EnvSpec(
        name="slider",
        tasks=("left", "right"),
        instructions=("reach the left side", "reach the right side"),
        train_trials=range(0, 1000),
        heldout_trials=range(1000, 2000),
        cameras=(CameraSpec("front", 16, 16),),
        states=(StateChannel("position", 1),),
        actions=(ActionChannel("ee_delta_position", 1, -1.0, 1.0),),
        max_episode_steps=config.max_episode_steps,
    )
