"""The checkout that RoboTwin's tests share."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from rlcore_env_robotwin import env
from rlcore_env_robotwin.driver import patches
from robotwin_cases import write_repository

OURS = ("envs", "description")


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A repository, and no SAPIEN to be changed; its modules are forgotten afterwards."""
    monkeypatch.setattr(patches, "apply", lambda ray_tracing: None)
    monkeypatch.setattr(env, "require_packages", lambda config: None)
    monkeypatch.setenv("ASSETS_PATH", "")
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield write_repository(tmp_path / "RoboTwin")
    for name in [name for name in sys.modules if name.partition(".")[0] in OURS]:
        del sys.modules[name]
