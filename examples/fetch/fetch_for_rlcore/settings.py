"""Keys and facts of the env. Imports no simulator: every dry run reads this."""

from __future__ import annotations

from dataclasses import dataclass

from rlcore_simulation.settings import SimulatedEnvConfig

from rlcore.config.schema import key
from rlcore.contracts.specs import ActionChannel, CameraSpec, EnvSpec, StateChannel

TASKS = {
    "reach": ("FetchReach-v4", "reach the red ball"),
    "lift": ("FetchPickAndPlace-v4", "lift the black cube to the red ball"),
}
STATES = (("ee_position", 3), ("gripper_opening", 1), ("cube", 3), ("goal", 3))


@dataclass
class FetchConfig(SimulatedEnvConfig):
    """The Fetch robot of gymnasium-robotics."""

    env_type: str = key("registered name of the env", "fetch")
    max_episode_steps: int = key("time limit in env steps", 50, minimum=1)
    image_size: int = key("height and width of frames", 64, minimum=16, maximum=480)


def env_spec(config: FetchConfig) -> EnvSpec:
    return EnvSpec(
        name="fetch",
        tasks=tuple(TASKS),
        instructions=tuple(told for _, told in TASKS.values()),
        train_trials=range(10_000),
        heldout_trials=range(10_000, 20_000),
        cameras=(CameraSpec("front", config.image_size, config.image_size),),
        states=tuple(StateChannel(*each) for each in STATES),
        actions=(ActionChannel("ee_delta_position", 3), ActionChannel("gripper", 1)),
        max_episode_steps=config.max_episode_steps,
        has_expert=True,
    )
