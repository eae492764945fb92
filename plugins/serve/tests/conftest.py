"""One toy run and three of its observations, for all tests of serving."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest
from served import toy_run

import rlcore
from rlcore.api import LoadedPolicy


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return toy_run(tmp_path_factory.mktemp("served"))


@pytest.fixture(scope="session")
def policy(run: Path) -> LoadedPolicy:
    return rlcore.load_policy(run)


@pytest.fixture(scope="session")
def observation() -> Any:
    envs = rlcore.make_env("toy", "env.eval.tasks=[reach-left,reach-up]", num_envs=3)
    with contextlib.closing(envs):
        return envs.reset(seed=1)[0]
