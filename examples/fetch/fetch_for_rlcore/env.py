"""The env, of many robots in processes. Importing it loads no simulator."""

from __future__ import annotations

from rlcore_simulation.env import SimulatedEnv
from rlcore_simulation.simulator import SimulatorSource

from fetch_for_rlcore.settings import FetchConfig, env_spec
from rlcore.contracts.protocols import Env

SOURCE = SimulatorSource(
    "fetch_for_rlcore.simulator:make_pool", name="Fetch simulator", environment={"MUJOCO_GL": "egl"}
)


def make(
    config: FetchConfig, *, num_envs: int, rank: int, world_size: int, num_processes: int
) -> Env:
    rows = {"num_envs": num_envs, "first_slot": rank * num_envs}
    return SimulatedEnv(env_spec(config), SOURCE, config, **rows, num_processes=num_processes)
