"""LIBERO in an environment of its own: rlcore's need not have it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from libero_cases import EnvMaker, needs_libero, small_config
from rlcore_env_libero import doctor, present
from rlcore_simulation.env import SimulatedEnv

from rlcore.contracts.errors import AssetError
from rlcore.contracts.specs import Episode

pytestmark = needs_libero


def absent() -> Path:
    raise AssetError("LIBERO is not installed")


@pytest.mark.long
def test_starts_and_courses_are_the_same_to_the_bit(
    make: EnvMaker, shared_env: SimulatedEnv, twin_venv: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moves = np.random.default_rng(0).uniform(-1, 1, (2, 4, 7)).astype(np.float32)
    episodes = [Episode(0, 1), Episode(0, 2)]
    for module in (present, doctor):
        monkeypatch.setattr(module, "libero_folder", absent)
    there = make(2, 1, python=str(twin_venv))
    for env in (shared_env, there):
        env.reset(options={"episodes": episodes})
    here, other = (env.chunk_step(moves).observation for env in (shared_env, there))
    np.testing.assert_array_equal(other["states"], here["states"])
    for camera in ("agentview", "wrist"):
        np.testing.assert_array_equal(other["cameras"][camera], here["cameras"][camera])
    config = small_config(python=str(twin_venv))
    rows = {row["name"]: row for row in doctor.doctor_checks([config])}
    assert str(twin_venv) in rows["libero: LIBERO's own code"]["detail"]
    assert rows.keys() == {"libero: GL library", "libero: LIBERO's own code"}


def test_assets_that_another_interpreter_lacks_are_refused(
    refused, make: EnvMaker, twin_venv: Path, tmp_path: Path
) -> None:
    env = make(1, 1, python=str(twin_venv), stand_ins=False, assets_path=str(tmp_path))
    with refused(AssetError, "10", tmp_path):
        env.reset(options={"episodes": [Episode(0, 1)]})
