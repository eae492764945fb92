"""Envs find their stand-ins by entry points, and refuse to use those that are not installed."""

from __future__ import annotations

from collections.abc import Callable
from importlib import metadata
from importlib.util import find_spec
from typing import Any

import pytest
from internals import compose
from rlcore_env_robotwin import env as robotwin
from rlcore_simulation.stand_ins import stand_in

from rlcore.contracts.errors import MissingPackageError
from rlcore.plugins.import_target import load_target
from rlcore.plugins.registry import load_plugins

OPTIONS = {
    "libero": "libero_object",
    "maniskill": "maniskill_put_on_plate_in_scene_25_main",
    "robotwin": "robotwin_stack_blocks_two",
}


@pytest.fixture
def absent(monkeypatch: pytest.MonkeyPatch) -> None:
    """No stand-ins are installed."""
    monkeypatch.setattr(metadata, "entry_points", lambda **_: ())


@pytest.mark.parametrize("env", OPTIONS)
def test_each_env_has_one(env: str) -> None:
    module, _, attribute = stand_in(env).partition(":")
    assert module.startswith("rlcore_stand_ins.") and find_spec(module) and attribute


@pytest.mark.parametrize("env", OPTIONS)
def test_a_missing_stand_in_is_refused_with_the_command(refused, env: str, absent: None) -> None:
    with refused(MissingPackageError, "stand_ins=true", env):
        stand_in(env)


@pytest.mark.parametrize("env", OPTIONS)
def test_a_run_with_missing_stand_ins_is_refused_before_it_starts(
    refused, env: str, absent: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [f"env={OPTIONS[env]}", "env.train.stand_ins=true", "env.eval.stand_ins=true"]
    run = compose(words, require=("env",))
    rows = load_plugins().doctor(run, {env})
    assert any(
        row["status"] == "missing" and "rlcore-stand-ins" in row["detail"] for row in rows
    ), rows
    if env == "robotwin":
        monkeypatch.setattr(robotwin, "require_packages", lambda config: None)
    make: Callable[..., Any] = load_target(load_plugins().get("env", env).spec.target)
    rows_of_worker = {"num_envs": 1, "rank": 0, "world_size": 1, "num_processes": 1}
    with refused(MissingPackageError, "stand_ins=true", env):
        make(run.env.train, **rows_of_worker)
