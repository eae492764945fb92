"""Make ManiSkill envs. Importing this module loads no simulator."""

from __future__ import annotations

import logging
from dataclasses import replace

from rlcore_sapien.vulkan import driver, environment
from rlcore_simulation.env import SimulatedEnv
from rlcore_simulation.simulator import SimulatorSource
from rlcore_simulation.stand_ins import stand_in

from rlcore.contracts.protocols import Env
from rlcore_env_maniskill.hub_files import assets_folder
from rlcore_env_maniskill.settings import ManiSkillConfig
from rlcore_env_maniskill.spec import env_spec
from rlcore_env_maniskill.tasks import PUT_ON_PLATE, task_of

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
        MissingPackageError: stand-ins are asked for and not installed.
    """
    # resolved here, because another interpreter has neither the clone nor the entry points
    on_plate = any(task_of(task) is PUT_ON_PLATE for task in config.tasks or ())
    stand_ins = stand_in("maniskill") if config.stand_ins and on_plate else ""
    config = replace(config, assets_path=stand_ins or str(assets_folder(config.assets_path)))
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
        packages=("rlcore_sapien", *filter(None, [stand_ins.partition(":")[0]])),
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
    chosen = vars(config)
    usual = vars(ManiSkillConfig())
    unused = [key for key in CPU_KEYS if chosen[key] != usual[key]]
    if unused:
        _log.warning("sim_backend=gpu ignores %s", ", ".join(unused))
