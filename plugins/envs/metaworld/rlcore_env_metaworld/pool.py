"""Make the simulators of one process.

The first simulator of a task takes half a second, each further one 20 ms.
"""

from __future__ import annotations

from rlcore_mujoco.render import Renderers
from rlcore_simulation.cache import SimulatorCache

from rlcore_env_metaworld.settings import MetaWorldConfig
from rlcore_env_metaworld.simulator import MetaWorldSimulator
from rlcore_env_metaworld.spec import env_spec, view_of


def make_pool(config: MetaWorldConfig) -> SimulatorCache[MetaWorldSimulator]:
    """Return a pool of simulators by task. Simulators of the same task share a renderer.

    The pool keeps up to `config.cached_simulators` idle simulators.
    """
    tasks = env_spec(config).tasks
    renderers = Renderers(view_of(config))
    return SimulatorCache(
        lambda task: MetaWorldSimulator(config, tasks[task], renderers),
        keep=config.cached_simulators,
        drop=MetaWorldSimulator.close,
    )
