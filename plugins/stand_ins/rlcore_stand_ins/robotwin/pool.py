"""Build the simulators of one process."""

from __future__ import annotations

import toppra
from rlcore_env_robotwin.settings import RoboTwinConfig
from rlcore_env_robotwin.spec import env_spec
from rlcore_simulation.cache import SimulatorCache

from rlcore_stand_ins.robotwin.planner import ArmPlanner
from rlcore_stand_ins.robotwin.simulator import StandIn

MOST_IDLE = 8  # idle simulators; one holds a scene of a few MB


def make_pool(config: RoboTwinConfig) -> SimulatorCache[StandIn]:
    """Return a cache of simulators by task, which share the planners of both arms."""
    toppra.setup_logging(
        "CRITICAL"
    )  # toppra warns of paths that can't be timed, which `motion` handles
    spec = env_spec(config)
    planners = (ArmPlanner(0), ArmPlanner(1))

    def build(number: int) -> StandIn:
        return StandIn(config, spec.tasks[number], spec.instructions[number], planners)

    return SimulatorCache(build, keep=MOST_IDLE)
