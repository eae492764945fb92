"""A fake env, observations of it and refusals of checkpoints, for the tests of every model."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from rlcore_testing.conformance.fake_env import fake_demonstration, fake_env, fake_observation

from rlcore.contracts.errors import CheckpointError, UserError
from rlcore.contracts.protocols import Demonstration, Observation
from rlcore.contracts.specs import EnvSpec

Make = Callable[..., object]


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
def edit() -> Callable[[Path, Mapping[str, Any]], None]:
    """Change entries of a JSON file; None removes one."""

    def edit(path: Path, entries: Mapping[str, Any]) -> None:
        content = {**json.loads(path.read_text()), **entries}
        path.write_text(json.dumps({n: value for n, value in content.items() if value is not None}))

    return edit


@pytest.fixture
def one_thread() -> Iterator[None]:
    """For tiny tensors, synchronising threads only costs time."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def refusal(
    refused: Callable[..., Any], make: Make, policy_spec: Make, default_env: EnvSpec
) -> Callable[..., UserError]:
    """Check that a policy's spec is refused, so before any worker starts, and so is the policy."""

    def refuse(
        config: Any,
        *words: object,
        kind: type[UserError] = CheckpointError,
        env: EnvSpec = default_env,
        text: bool = True,
    ) -> UserError:
        with refused(kind, *words, text=False):
            make(config, env_spec=env)
        with refused(kind, *words, text=text) as error:
            policy_spec(config, env)
        return error.value  # type: ignore[no-any-return]

    return refuse
