"""What the `make` fixtures of simulated envs share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from rlcore_simulation.env import SimulatedEnv


def env_maker(
    make_env: Callable[..., SimulatedEnv], small_config: Callable[..., Any]
) -> Iterator[Callable[..., SimulatedEnv]]:
    """Yield `make(num_envs, num_processes, **settings)`, and close the envs that it made."""
    made: list[SimulatedEnv] = []

    def make(num_envs: int, num_processes: int, **settings: object) -> SimulatedEnv:
        config = small_config(**settings)
        rank = {"rank": 0, "world_size": 1}
        made.append(make_env(config, num_envs=num_envs, num_processes=num_processes, **rank))
        return made[-1]

    yield make
    for env in made:
        env.close()
