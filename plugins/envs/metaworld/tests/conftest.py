"""Envs the MetaWorld tests share."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from env_makers import env_maker
from metaworld_cases import BUTTON, REACH, EnvMaker, small_config
from rlcore_env_metaworld.env import make_env
from rlcore_mujoco.gl import choose_gl
from rlcore_simulation.env import SimulatedEnv

# Tests import MuJoCo into this process; it reads the variable once.
os.environ["MUJOCO_GL"] = choose_gl() or ""


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("filterwarnings", "ignore:Constant:UserWarning")  # experts', we clip


@pytest.fixture(scope="session")
def shared_env() -> Iterator[SimulatedEnv]:
    """Three rows of two tasks in two processes; a process takes seconds to start."""
    env = make_env(
        small_config(tasks=[BUTTON, REACH]), num_envs=3, rank=0, world_size=1, num_processes=2
    )
    yield env
    env.close()


@pytest.fixture
def make() -> Iterator[EnvMaker]:
    """Makes envs and closes them: `make(num_envs, num_processes, **settings)`."""
    yield from env_maker(make_env, small_config)
