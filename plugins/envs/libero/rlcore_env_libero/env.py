"""Make an rlcore Env of LIBERO. This module imports no simulator."""

from __future__ import annotations

from dataclasses import replace

from rlcore_mujoco import env as mujoco_env
from rlcore_simulation.env import SimulatedEnv
from rlcore_simulation.simulator import SimulatorSource
from rlcore_simulation.stand_ins import stand_in

from rlcore_env_libero.present import require_all
from rlcore_env_libero.settings import LiberoConfig
from rlcore_env_libero.spec import env_spec

SOURCE = SimulatorSource("rlcore_env_libero.pool:make_pool", name="LIBERO simulator")


def make_env(
    config: LiberoConfig, *, num_envs: int, rank: int, world_size: int, num_processes: int
) -> SimulatedEnv:
    """Make the env of env worker `rank`.

    The env has `num_envs` rows in `num_processes` simulator processes; 0 simulates in this process.

    Raises:
        AssetError: there is no GL library or no LIBERO, or files of its tasks or assets are
            missing. Raised before any process starts, unless simulators run in another interpreter,
            which then checks for LIBERO's files itself.
        ConfigError: settings that contradict each other.
        MissingPackageError: stand-ins are asked for and not installed.
    """
    spec = env_spec(config)
    if config.interpreter() is None:
        require_all(config, spec.tasks)
    source = replace(SOURCE, target=stand_in("libero")) if config.stand_ins else SOURCE
    return mujoco_env.make_env(
        spec, source, config, num_envs=num_envs, rank=rank, num_processes=num_processes
    )
