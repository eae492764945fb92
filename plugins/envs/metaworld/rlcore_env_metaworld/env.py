"""MetaWorld as an rlcore Env. Importing it loads no simulator."""

from __future__ import annotations

from dataclasses import replace

from rlcore_simulation.env import SimulatedEnv
from rlcore_simulation.simulator import SimulatorSource

from rlcore_env_metaworld.gl import choose_gl
from rlcore_env_metaworld.settings import MetaWorldConfig
from rlcore_env_metaworld.spec import env_spec


def make_env(
    config: MetaWorldConfig, *, num_envs: int, rank: int, world_size: int, num_processes: int
) -> SimulatedEnv:
    """The env of worker `rank`: `num_envs` rows in `num_processes` processes (0: in this one).

    Raises:
        AssetError: no GL library; before any process starts.
        ConfigError: settings that contradict each other.
    """
    spec = env_spec(config)
    gl = choose_gl()
    source = SimulatorSource(
        "rlcore_env_metaworld.pool:make_pool",
        name="MetaWorld simulator",
        environment={} if gl is None else {"MUJOCO_GL": gl},
        readers=("mujoco",),  # on a machine without a display it fails without that variable
    )
    return SimulatedEnv(
        replace(spec, render_settings={**spec.render_settings, "gl": gl or "platform"}),
        source,
        config,
        num_envs=num_envs,
        first_slot=rank * num_envs,
        num_processes=num_processes,
    )
