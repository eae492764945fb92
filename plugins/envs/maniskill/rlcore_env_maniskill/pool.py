"""Make the simulators of one process."""

from __future__ import annotations

from rlcore_simulation.cache import SimulatorCache

from rlcore_env_maniskill.settings import ManiSkillConfig
from rlcore_env_maniskill.simulator import Simulator
from rlcore_env_maniskill.spec import env_spec


def make_pool(config: ManiSkillConfig) -> SimulatorCache[Simulator]:
    """Return a cache of simulators by task index.

    Building a simulator takes a quarter of a second, a start 30 to 60 ms.
    """
    tasks = env_spec(config).tasks
    return SimulatorCache(
        lambda task: Simulator(config, tasks[task]),
        keep=config.cached_simulators,
        drop=Simulator.close,
    )
