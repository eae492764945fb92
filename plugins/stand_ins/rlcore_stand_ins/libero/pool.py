"""Make LIBERO's simulators with scenes of stand-ins."""

from __future__ import annotations

from rlcore_env_libero import pool
from rlcore_env_libero.settings import LiberoConfig
from rlcore_env_libero.simulator import LiberoSimulator
from rlcore_simulation.cache import SimulatorCache

from rlcore_stand_ins.libero.write import write_stand_ins


def make_pool(config: LiberoConfig) -> SimulatorCache[LiberoSimulator]:
    """Return a pool of simulators by task, as :func:`rlcore_env_libero.pool.make_pool` does.

    With `stand_ins=False` the scenes have LIBERO's own assets.
    """
    return pool.make_pool(config, write_stand_ins if config.stand_ins else None)
