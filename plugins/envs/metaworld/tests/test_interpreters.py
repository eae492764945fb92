"""MetaWorld in an environment of its own: starts and courses as in rlcore's."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from internals import assemble, compose
from metaworld_cases import BUTTON, CAMERA, DRAWER, EnvMaker
from rlcore_simulation.env import SimulatedEnv

from rlcore.cli.main import main
from rlcore.contracts.errors import AssetError
from rlcore.contracts.specs import Episode

TASKS = [BUTTON, DRAWER]
EPISODES = [Episode(0, 3), Episode(1, 10_003)]
CHUNKS = 4


def course(env: SimulatedEnv) -> list[dict[str, Any]]:
    """What is seen of the starts and of some chunks of arbitrary motion."""
    random = np.random.default_rng(0)
    start = env.reset(options={"episodes": EPISODES})[0]
    seen: list[dict[str, Any]] = [{"rewards": np.zeros((2, 5)), "observation": start}]
    for _ in range(CHUNKS):
        seen.append(vars(env.chunk_step(random.uniform(-1, 1, (2, 5, 4)).astype(np.float32))))
    return [
        {
            "rewards": each["rewards"],
            "states": each["observation"]["states"],
            "frames": each["observation"]["cameras"][CAMERA],
        }
        for each in seen
    ]


def require_same(there: list[dict[str, Any]], here: list[dict[str, Any]]) -> None:
    for seen, expected in zip(there, here, strict=True):
        for name, array in expected.items():
            np.testing.assert_array_equal(seen[name], array)
    assert not np.array_equal(here[0]["states"], here[-1]["states"])  # something moved


def test_starts_courses_and_frames_are_the_same_to_the_bit(make: EnvMaker, twin_venv: Path) -> None:
    there = make(2, 1, tasks=TASKS, reward="dense", python=str(twin_venv))
    require_same(course(there), course(make(2, 0, tasks=TASKS, reward="dense")))


def installed(*names: str) -> list[str]:
    return [f"{name}=={version(name)}" for name in names]


@pytest.mark.long
def test_an_environment_with_only_the_simulator_gives_the_same_bits(
    make: EnvMaker, other_venv: Callable[..., Path]
) -> None:
    venv = other_venv("metaworld", *installed("metaworld", "mujoco", "numpy", "packaging"))
    assert not list(venv.glob("lib/python3*/site-packages/torch"))
    there = make(2, 1, tasks=TASKS, reward="dense", python=str(venv))
    require_same(course(there), course(make(2, 0, tasks=TASKS, reward="dense")))


@pytest.mark.long
def test_across_the_major_versions_of_numpy_only_dense_rewards_differ(
    make: EnvMaker, other_venv: Callable[..., Path]
) -> None:
    """In their last bit: 6e-8 at most (docs/interpreters.md)."""
    wanted = [*installed("metaworld", "mujoco", "packaging"), "numpy==1.26.4"]
    venv = other_venv("metaworld-numpy1", *wanted)
    there = course(make(2, 1, tasks=TASKS, reward="dense", python=str(venv)))
    here = course(make(2, 0, tasks=TASKS, reward="dense"))
    for one, other in zip(there, here, strict=True):
        np.testing.assert_array_equal(one["states"], other["states"])
        np.testing.assert_array_equal(one["frames"], other["frames"])
        np.testing.assert_allclose(one["rewards"], other["rewards"], rtol=0, atol=1e-6)


@pytest.mark.filterwarnings("ignore:actor.model.model_path is null")
def test_an_evaluation_does_not_need_the_interpreter_of_training(refused, twin_venv: Path) -> None:
    python = ["env.train.python=/no/python", f"env.eval.python={twin_venv}"]
    words = ["env=metaworld", "model=pi0_tiny", "algorithm=ppo", *python]
    with refused(AssetError, "env.train.python", "/no/python"):
        assemble(compose(words)).interpreters()
    evaluates = compose([*words, "env.train.num_processes=0", "runner.only_eval=true"])
    made = assemble(evaluates)
    sides = [interpreter.side for interpreter in made.interpreters()]
    assert sides == [*made.active_specs] == ["eval"]
    with refused(AssetError, "env.train.python", "/no/python"):  # as replay may
        assemble(compose([*words, "runner.only_eval=true"]), trains=True).interpreters()


def test_collect_needs_the_interpreter_of_training(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["env=metaworld", "env.train.python=/no/python", "runner.only_eval=true"]
    assert main(["collect", *words, "--dry-run"]) == 0
    assert "missing  env.train.python: /no/python" in capsys.readouterr().out
