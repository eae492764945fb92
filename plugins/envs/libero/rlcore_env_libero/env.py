"""LIBERO as an rlcore Env. Importing it loads no simulator."""

from __future__ import annotations

from rlcore_mujoco import env as mujoco_env
from rlcore_simulation.env import SimulatedEnv
from rlcore_simulation.simulator import SimulatorSource

from rlcore_env_libero.present import require_all
from rlcore_env_libero.settings import LiberoConfig
from rlcore_env_libero.spec import env_spec

SOURCE = SimulatorSource("rlcore_env_libero.pool:make_pool", name="LIBERO simulator")


def make_env(
    config: LiberoConfig, *, num_envs: int, rank: int, world_size: int, num_processes: int
) -> SimulatedEnv:
    """The env of worker `rank`: `num_envs` rows in `num_processes` processes (0: in this one).

    Raises:
        AssetError: no GL library, no LIBERO, or files of its tasks or assets missing; before any
            process starts, unless simulators have an interpreter of their own.
        ConfigError: settings that contradict each other.
    """
    spec = env_spec(config)
    if config.interpreter() is None:
        require_all(config, spec.tasks)
    return mujoco_env.make_env(
        spec, SOURCE, config, num_envs=num_envs, rank=rank, num_processes=num_processes
    )
