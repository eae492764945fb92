"""The simulators of one process."""

from __future__ import annotations

import toppra
from rlcore_env_robotwin.settings import RoboTwinConfig
from rlcore_env_robotwin.spec import env_spec
from rlcore_simulation.cache import SimulatorCache

from rlcore_stand_ins.robotwin.planner import ArmPlanner
from rlcore_stand_ins.robotwin.simulator import StandIn

KEPT = 8  # idle simulators; one holds a scene of a few MB


def make_pool(config: RoboTwinConfig) -> SimulatorCache[StandIn]:
    """Simulators by task; they share the planners of both arms."""
    toppra.setup_logging("CRITICAL")  # it warns of paths that the rules of a motion allow
    spec = env_spec(config)
    planners = (ArmPlanner(0), ArmPlanner(1))

    def build(number: int) -> StandIn:
        return StandIn(config, spec.tasks[number], spec.instructions[number], planners)

    return SimulatorCache(build, keep=KEPT)
