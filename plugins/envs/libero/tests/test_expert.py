"""The scripted expert solves nine tasks of libero_object on stand-ins."""

from __future__ import annotations

import pytest
from libero_cases import MILK, SOUP, EnvMaker, needs_libero, small_config
from rlcore_env_libero.spec import SOLVED, env_spec

from rlcore.specs import Episode

SETTINGS = {"action_noise": 0.0, "speed": 1.0, "stride": 200, "seed": 0, "max_steps": 280}


def test_only_tasks_that_it_can_do_have_an_expert() -> None:
    assert env_spec(small_config()).has_expert
    assert len(SOLVED) == 9
    assert not env_spec(small_config(suite="libero_goal", tasks=None)).has_expert
    assert not env_spec(small_config(stand_ins=False)).has_expert


@needs_libero
@pytest.mark.parametrize(("task", "gripper"), [(SOUP, "signed"), (MILK, "binary")])
def test_it_solves_a_task(make: EnvMaker, task: str, gripper: str) -> None:
    env = make(1, 0, tasks=[task], gripper=gripper, settle_steps=10)
    (played,) = env.demonstrate([Episode(0, 40)], **SETTINGS)
    assert played.success and 60 < len(played.actions) < 160


@needs_libero
@pytest.mark.long
@pytest.mark.timeout(3600)
def test_it_solves_nine_of_ten_starts_of_the_suite(make: EnvMaker) -> None:
    """20 starts of each of its tasks."""
    tasks = sorted(SOLVED)
    env = make(2, 2, tasks=tasks, settle_steps=10, cached_tasks=1)
    wins = dict.fromkeys(tasks, 0)
    for number, task in enumerate(tasks):
        episodes = [Episode(number, trial) for trial in range(20)]
        for played in env.demonstrate(episodes, **SETTINGS):
            wins[task] += played.success
    assert sum(wins.values()) >= 0.9 * 20 * len(tasks), wins
