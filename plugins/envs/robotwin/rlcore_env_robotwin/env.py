"""Make RoboTwin envs. Importing this module loads no simulator."""

from __future__ import annotations

from rlcore_sapien.vulkan import environment
from rlcore_simulation.simulator import SimulatorSource
from rlcore_simulation.stand_ins import stand_in
from rlcore_simulation.suspending import SuspendingEnv

from rlcore_env_robotwin.checkout import require_assets, require_packages
from rlcore_env_robotwin.settings import RoboTwinConfig
from rlcore_env_robotwin.spec import env_spec


def make_env(
    config: RoboTwinConfig, *, num_envs: int, rank: int, world_size: int, num_processes: int
) -> SuspendingEnv:
    """Make the env of worker `rank`: `num_envs` rows in `num_processes` processes (0: in this one).

    Raises:
        AssetError: RoboTwin's repository or assets or a Vulkan driver are missing, or mplib does
            not run in the simulators' environment; raised before any process starts.
        ConfigError: settings contradict each other.
        MissingPackageError: stand-ins are asked for and not installed.
    """
    spec = env_spec(config)
    require_packages(config)
    if config.stand_ins:
        target = stand_in("robotwin")
        name = "RoboTwin stand-in simulator"
    else:
        require_assets(config, spec.tasks)
        target = "rlcore_env_robotwin.driver.pool:make_pool"
        name = "RoboTwin simulator"
    return SuspendingEnv(
        spec,
        SimulatorSource(target, name, environment=environment(), readers=("sapien",)),
        config,
        num_envs=num_envs,
        first_slot=rank * num_envs,
        num_processes=num_processes,
    )
