"""A fake env and observations of it, for the plugin's tests."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from rlcore_model_openpi.policy import make
from rlcore_model_openpi.spec import policy_spec
from rlcore_testing.conformance.fake_env import fake_demonstration, fake_env, fake_observation

from rlcore.contracts.errors import CheckpointError, UserError
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


@pytest.fixture
def refuse(refused: Callable[..., Any], env_spec: EnvSpec) -> Callable[..., UserError]:
    """Check that a policy's spec is refused, so before any worker starts, and so is the policy."""

    def refuse(
        config: Any,
        *words: object,
        kind: type[UserError] = CheckpointError,
        env: EnvSpec = env_spec,
        text: bool = True,
    ) -> UserError:
        with refused(kind, *words, text=False):
            make(config, env_spec=env)
        with refused(kind, *words, text=text) as error:
            policy_spec(config, env)
        return error.value  # type: ignore[no-any-return]

    return refuse


@pytest.fixture
def edit() -> Callable[[Path, Mapping[str, Any]], None]:
    """Change entries of a JSON file; None removes one."""

    def edit(path: Path, entries: Mapping[str, Any]) -> None:
        content = {**json.loads(path.read_text()), **entries}
        path.write_text(json.dumps({n: value for n, value in content.items() if value is not None}))

    return edit
