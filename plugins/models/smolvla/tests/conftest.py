"""Fixtures of the plugin's tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from model_fixtures import demonstrate, edit, env_spec, observe, one_thread, other_env, refusal
from rlcore_model_smolvla.policy import make
from rlcore_model_smolvla.spec import policy_spec

from rlcore.contracts.errors import UserError
from rlcore.contracts.specs import EnvSpec

__all__ = ["demonstrate", "edit", "env_spec", "observe", "one_thread", "other_env"]


@pytest.fixture
def refuse(refused: Callable[..., Any], env_spec: EnvSpec) -> Callable[..., UserError]:
    return refusal(refused, make, policy_spec, env_spec)
