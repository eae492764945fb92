"""ManiSkill's own motion-planned solutions as experts, in an environment with their numpy."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from maniskill_cases import PICK, EnvMaker, small_config
from rlcore_env_maniskill import plugin
from rlcore_env_maniskill.experts import planned
from rlcore_env_maniskill.spec import env_spec

from rlcore.contracts.errors import AssetError, ConfigError
from rlcore.contracts.specs import Episode

# A path of joint positions, and the gripper.
PATH = np.array([[0.05] * 7 + [1.0], [0.30] * 7 + [1.0], [0.30] * 7 + [-1.0]])


def scene() -> Any:
    """An arm at rest whose full action is 0.1 rad."""
    arm = SimpleNamespace(qpos=torch.zeros(1, 7), config=SimpleNamespace(upper=0.1))
    controller = SimpleNamespace(controllers={"arm": arm})
    return SimpleNamespace(agent=SimpleNamespace(controller=controller))


def follow(env: Any, seed: int | None, debug: bool, vis: bool) -> None:
    """A solution: it resets, and steps along the path."""
    env.reset(seed=seed)
    for target in PATH:
        env.step(target)


@pytest.fixture
def expert(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., planned.Planned]]:
    made: list[planned.Planned] = []

    def make(solve: Callable[..., Any] = follow) -> planned.Planned:
        module = SimpleNamespace(solve=solve)
        monkeypatch.setattr(planned.importlib, "import_module", lambda name: module)
        made.append(planned.Planned(PICK, scene()))
        return made[-1]

    yield make
    for each in made:
        each.reset()


def test_a_solution_is_carried_out_an_action_at_a_time_and_its_end_is_held(expert) -> None:
    it = expert()
    found = [it.action(speed=1.0) for _ in range(5)]
    # 0.05 rad is half of a full action, 0.3 is beyond it; the arm of this scene never moves
    joints = [action[:7].tolist() for action in found]
    assert joints == [[0.5] * 7, [1.0] * 7, [1.0] * 7, [1.0] * 7, [1.0] * 7]
    assert [action[7] for action in found] == [1, 1, -1, -1, -1]
    assert found[0].dtype == np.float32


def test_an_episode_that_is_ended_leaves_no_thread_and_begins_anew(expert) -> None:
    before = threading.enumerate()
    it = expert()
    it.action(speed=1.0)
    (begun,) = (thread for thread in threading.enumerate() if thread not in before)
    it.reset()
    assert not begun.is_alive()
    assert it.action(speed=1.0)[0] == 0.5


def test_an_error_in_a_solution_is_raised(expert) -> None:
    def fail(env: Any, **_: Any) -> None:
        raise ValueError("no way")

    with pytest.raises(ValueError):
        expert(fail).action(speed=1.0)


def test_a_solution_has_its_own_speed(refused, expert) -> None:
    with refused(ConfigError, "collect.speed"):
        expert().action(speed=0.5)


def test_without_mplib_the_command_is_named(refused, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ImportError("numpy.core.multiarray failed to import")

    monkeypatch.setattr(planned.importlib, "import_module", missing)
    with refused(AssetError, "PickCube-v1", "rlcore venv create maniskill", text=False):
        planned.Planned(PICK, scene())


def test_a_planning_expert_needs_a_scene_on_the_cpu(refused) -> None:
    joints = {"tasks": [PICK], "control_mode": planned.CONTROL_MODE}
    assert env_spec(small_config(**joints, python="/other/python")).has_expert
    here = int(np.__version__.partition(".")[0]) < 2
    assert env_spec(small_config(**joints)).has_expert == here
    with refused(ConfigError, "sim_backend"):
        env_spec(small_config(**joints, python="/other/python", sim_backend="gpu"))


@pytest.mark.long
@pytest.mark.parametrize("task", planned.SOLUTIONS)
def test_a_tasks_own_solution_solves_it(
    make: EnvMaker, other_venv: Callable[..., Path], task: str
) -> None:
    component, *_ = plugin.rlcore_components()
    venv = other_venv("maniskill", *component.requirements)
    env = make(
        1,
        1,
        tasks=[task],
        robot="panda",
        control_mode=planned.CONTROL_MODE,
        python=str(venv),
        simulator_timeout=600.0,
    )
    episodes = [Episode(0, trial) for trial in range(10)]
    settings = {"speed": 1.0, "stride": 50, "seed": 0, "max_steps": 150}
    for noise in (0.0, 0.1):
        played = list(env.demonstrate(episodes, action_noise=noise, **settings))
        assert sum(each.success for each in played) >= 9
        for each in played:
            assert np.abs(each.actions).max() <= 1 and each.actions.shape[1] == 8
    again = list(env.demonstrate(episodes[:2], action_noise=noise, **settings))
    for one, other in zip(again, played, strict=False):
        np.testing.assert_array_equal(one.actions, other.actions)
