"""LIBERO as an rlcore Env. Importing it loads no simulator."""

from __future__ import annotations

from rlcore_mujoco import env as mujoco_env
from rlcore_simulation.env import SimulatedEnv
from rlcore_simulation.simulator import SimulatorSource

from rlcore_env_libero.assets import assets_folder, require_assets
from rlcore_env_libero.installed import libero_folder
from rlcore_env_libero.settings import LiberoConfig
from rlcore_env_libero.spec import env_spec

SOURCE = SimulatorSource("rlcore_env_libero.pool:make_pool", name="LIBERO simulator")


def make_env(
    config: LiberoConfig, *, num_envs: int, rank: int, world_size: int, num_processes: int
) -> SimulatedEnv:
    """The env of worker `rank`: `num_envs` rows in `num_processes` processes (0: in this one).

    Raises:
        AssetError: no GL library, no LIBERO, or files of its assets missing; before any process
            starts.
        ConfigError: settings that contradict each other.
    """
    spec = env_spec(config)
    libero_folder()
    if not config.stand_ins:
        require_assets(assets_folder(config.assets_path), spec.tasks)
    return mujoco_env.make_env(
        spec, SOURCE, config, num_envs=num_envs, rank=rank, num_processes=num_processes
    )
