"""Make ManiSkill envs. Importing this module loads no simulator."""

from __future__ import annotations

import logging
from dataclasses import replace

from rlcore_sapien.vulkan import driver, environment
from rlcore_simulation.env import SimulatedEnv
from rlcore_simulation.simulator import SimulatorSource

from rlcore.contracts.protocols import Env
from rlcore_env_maniskill.hub_files import assets_folder
from rlcore_env_maniskill.settings import ManiSkillConfig
from rlcore_env_maniskill.spec import env_spec

_log = logging.getLogger(__name__)
# Keys of every simulated env that have no effect on the batched simulation.
CPU_KEYS = ("num_processes", "simulator_timeout")


def make_env(
    config: ManiSkillConfig, *, num_envs: int, rank: int, world_size: int, num_processes: int
) -> Env:
    """Make the env of worker `rank`.

    With `sim_backend: cpu` its simulators run in `num_processes` processes (0: in this process);
    with `sim_backend: gpu` it is one batched simulation on the worker's GPU.

    Raises:
        AssetError: there is no Vulkan driver; raised before any process starts.
        ConfigError: settings contradict each other.
    """
    # resolved here: another interpreter runs a copy of this package, which is in no clone
    config = replace(config, assets_path=str(assets_folder(config.assets_path)))
    spec = env_spec(config)
    spec = replace(spec, render_settings={**spec.render_settings, "vulkan": driver()})
    if config.sim_backend == "gpu":
        from rlcore_env_maniskill.batched import BatchedEnv  # loads the simulator

        _warn_of_unused(config)
        return BatchedEnv(config, spec, num_envs=num_envs, first_slot=rank * num_envs)
    source = SimulatorSource(
        target="rlcore_env_maniskill.pool:make_pool",
        name="ManiSkill simulator",
        environment=environment(),
        readers=("sapien",),
        packages=("rlcore_sapien",),
    )
    return SimulatedEnv(
        spec,
        source,
        config,
        num_envs=num_envs,
        first_slot=rank * num_envs,
        num_processes=num_processes,
    )


def _warn_of_unused(config: ManiSkillConfig) -> None:
    chosen, usual = vars(config), vars(ManiSkillConfig())
    unused = [key for key in CPU_KEYS if chosen[key] != usual[key]]
    if unused:
        _log.warning("sim_backend=gpu ignores %s", ", ".join(unused))
