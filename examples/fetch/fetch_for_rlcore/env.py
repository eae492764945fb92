"""The env, of many robots in processes. Importing it loads no simulator."""

from __future__ import annotations

from rlcore_simulation.env import env_maker
from rlcore_simulation.simulator import SimulatorSource

from fetch_for_rlcore.settings import env_spec

SOURCE = SimulatorSource(
    "fetch_for_rlcore.simulator:make_pool", name="Fetch simulator", environment={"MUJOCO_GL": "egl"}
)
make = env_maker(env_spec, SOURCE)
