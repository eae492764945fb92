"""A fake env and tiny policies for it, for the plugin's tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from model_fixtures import one_thread
from rlcore_model_openvla.policy import make
from rlcore_model_openvla.settings import OpenVLAConfig
from rlcore_prismatic.policy import TokenPolicy
from rlcore_testing.conformance.fake_env import fake_env

__all__ = ["one_thread"]
TINY = {"size": "tiny", "add_value_head": True, "critic_hidden": [16], "num_action_chunks": 1}


@pytest.fixture(autouse=True)
def on_one_thread(one_thread: None) -> None:
    """For all tests of the plugin."""


@pytest.fixture
def build() -> Callable[..., TokenPolicy]:
    """`build(seed=0, env=fake_env(), **settings)`: a policy whose weights are off their start,
    far enough that its tokens are not all alike."""

    def built(*, seed: int = 0, env: Any = None, **settings: Any) -> TokenPolicy:
        config = OpenVLAConfig(**{**TINY, **settings})
        torch.manual_seed(seed)
        policy = make(config, env_spec=env or fake_env())
        if config.model_path is None:
            shake(policy)
        return policy

    return built


def shake(policy: torch.nn.Module, scale: float = 0.1) -> None:
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter += scale * torch.randn(parameter.shape).to(parameter.dtype)
