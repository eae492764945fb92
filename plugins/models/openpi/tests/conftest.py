"""An env on paper and observations of it, for the plugin's tests."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from rlcore_testing.conformance.paper import paper_demonstration, paper_env, paper_observation

from rlcore.contracts.protocols import Demonstration, Observation
from rlcore.contracts.specs import EnvSpec


@pytest.fixture
def env_spec() -> EnvSpec:
    return paper_env()


@pytest.fixture
def other_env() -> Callable[..., EnvSpec]:
    return paper_env


@pytest.fixture
def observe() -> Callable[..., Observation]:
    return paper_observation


@pytest.fixture
def demonstrate() -> Callable[..., Demonstration]:
    return paper_demonstration
