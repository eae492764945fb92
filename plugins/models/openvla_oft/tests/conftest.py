"""A fake env and observations of it, for the plugin's tests."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from rlcore_testing.conformance.fake_env import fake_demonstration, fake_env, fake_observation

from rlcore.contracts.protocols import Demonstration, Observation
from rlcore.contracts.specs import EnvSpec


@pytest.fixture
def env_spec() -> EnvSpec:
    return fake_env()


@pytest.fixture
def other_env() -> Callable[..., EnvSpec]:
    return fake_env


@pytest.fixture
def observe() -> Callable[..., Observation]:
    return fake_observation


@pytest.fixture
def demonstrate() -> Callable[..., Demonstration]:
    return fake_demonstration
