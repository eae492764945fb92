"""Envs of the tiny simulator, and an environment for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from line_simulator import LineConfig, make_env
from rlcore_simulation.env import SimulatedEnv


@pytest.fixture(scope="session")
def numpy1(other_venv: Callable[..., Path]) -> str:
    """An environment with the other major version of numpy."""
    return str(other_venv("numpy1", "numpy==1.26.4"))


@pytest.fixture
def make() -> Iterator[Callable[..., SimulatedEnv]]:
    """Makes envs and closes them: `make(num_envs, num_processes, **settings)`, or, to change a
    setting later, `make(num_envs, num_processes, config)`."""
    made: list[SimulatedEnv] = []

    def make_one(
        num_envs: int, num_processes: int, config: LineConfig | None = None, **settings: object
    ) -> SimulatedEnv:
        config = config or LineConfig(**settings)  # type: ignore[arg-type]
        made.append(make_env(config, num_envs=num_envs, num_processes=num_processes))
        return made[-1]

    yield make_one
    for env in made:
        env.close()
