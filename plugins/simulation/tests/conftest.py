"""Envs of the tiny simulator."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from line_simulator import LineConfig, make_env
from rlcore_simulation.env import SimulatedEnv


@pytest.fixture
def make() -> Iterator[Callable[..., SimulatedEnv]]:
    """Makes envs and closes them: `make(num_envs, num_processes, **settings)`."""
    made: list[SimulatedEnv] = []

    def make_one(num_envs: int, num_processes: int, **settings: object) -> SimulatedEnv:
        config = LineConfig(**settings)  # type: ignore[arg-type]
        made.append(make_env(config, num_envs=num_envs, num_processes=num_processes))
        return made[-1]

    yield make_one
    for env in made:
        env.close()
