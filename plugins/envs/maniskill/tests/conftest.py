"""What the ManiSkill tests share. SAPIEN reads its variables when it is imported.

Without a Vulkan driver SAPIEN makes no scene, even one that is never drawn. Tests that play in one
are skipped with the reason; specs, settings, files, rules, paths and batches are checked all the
same.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from env_makers import env_maker
from maniskill_cases import EnvMaker, small_config
from rlcore_env_maniskill.env import make_env
from rlcore_sapien.vulkan import environment

from rlcore.contracts.errors import AssetError

try:
    _variables, _no_driver = environment(), ""
except AssetError as error:
    _variables, _no_driver = {}, error.message
for _name, _value in _variables.items():
    os.environ.setdefault(_name, _value)


@pytest.fixture(scope="session")
def vulkan() -> None:
    """For tests that play in a scene."""
    if _no_driver:
        pytest.skip(_no_driver)


@pytest.fixture
def make(vulkan: None) -> Iterator[EnvMaker]:
    """Makes envs and closes them: `make(num_envs, num_processes, **settings)`."""
    yield from env_maker(make_env, small_config)
