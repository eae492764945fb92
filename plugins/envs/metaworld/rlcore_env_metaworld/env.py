"""Make an rlcore Env of MetaWorld. This module imports no simulator."""

from __future__ import annotations

from rlcore_mujoco import env as mujoco_env
from rlcore_simulation.env import SimulatedEnv
from rlcore_simulation.simulator import SimulatorSource

from rlcore_env_metaworld.settings import MetaWorldConfig
from rlcore_env_metaworld.spec import env_spec

SOURCE = SimulatorSource("rlcore_env_metaworld.pool:make_pool", name="MetaWorld simulator")


def make_env(
    config: MetaWorldConfig, *, num_envs: int, rank: int, world_size: int, num_processes: int
) -> SimulatedEnv:
    """Make the env of env worker `rank`.

    The env has `num_envs` rows in `num_processes` simulator processes; 0 simulates in this process.

    Raises:
        AssetError: this machine has no GL library. Raised before any process starts.
        ConfigError: settings that contradict each other.
    """
    return mujoco_env.make_env(
        env_spec(config),
        SOURCE,
        config,
        num_envs=num_envs,
        rank=rank,
        num_processes=num_processes,
    )
