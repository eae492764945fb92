"""Envs the LIBERO tests share."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from env_makers import env_maker
from libero_cases import SOUP, EnvMaker, small_config
from rlcore_env_libero.env import make_env
from rlcore_mujoco.gl import choose_gl
from rlcore_simulation.env import SimulatedEnv

# Tests import MuJoCo into this process; it reads the variable once.
os.environ["MUJOCO_GL"] = choose_gl() or ""


@pytest.fixture
def make() -> Iterator[EnvMaker]:
    """Makes envs and closes them: `make(num_envs, num_processes, **settings)`."""
    yield from env_maker(make_env, small_config)


@pytest.fixture(scope="module")
def shared_env() -> Iterator[SimulatedEnv]:
    """Two rows of one task in this process; a task takes seconds to compile.

    No longer than a module: LIBERO's own env, which tests compare with, ends OpenGL for the whole
    process as it closes, and frames of an env from before are wrong from then on.
    """
    env = make_env(small_config(tasks=[SOUP]), num_envs=2, rank=0, world_size=1, num_processes=0)
    yield env
    env.close()
