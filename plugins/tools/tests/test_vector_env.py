"""An env as gymnasium sees it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers.vector import RecordEpisodeStatistics
from rlcore_tools.vector_env import GymnasiumVectorEnv

import rlcore
from rlcore.contracts.errors import ConfigError, PluginError

TASKS = "env.eval.tasks=[reach-up,reach-left]"
LIMIT = "env.eval.max_episode_steps=5"


@pytest.fixture
def envs() -> Iterator[GymnasiumVectorEnv]:
    made = rlcore.make_env("toy", TASKS, LIMIT, num_envs=3)
    yield made
    made.close()


def still(envs: GymnasiumVectorEnv) -> np.ndarray:
    return np.zeros(envs.action_space.shape, dtype=np.float32)


def test_spaces_hold_what_is_given(envs):
    assert envs.metadata["autoreset_mode"] == AutoresetMode.NEXT_STEP
    envs.action_space.seed(0)
    observation, _ = envs.reset(seed=4)
    for _ in range(8):
        assert envs.observation_space.contains(observation)
        actions = envs.action_space.sample()
        assert actions.shape == (3, 2)
        observation, rewards, terminated, truncated, info = envs.step(actions)
        assert rewards.shape == terminated.shape == truncated.shape == info["success"].shape == (3,)
    assert envs.single_observation_space["cameras"]["top"].shape == (16, 16, 3)


def test_a_seed_gives_the_starts(envs):
    first, one = envs.reset(seed=4)
    envs.reset()
    again, two = envs.reset(seed=4)
    assert (first["states"] == again["states"]).all()
    assert one["trial"].tolist() == two["trial"].tolist()
    assert set(one["task"]) <= {"reach-up", "reach-left"}


def test_starts_that_are_asked_for(envs):
    _, info = envs.reset(options={"episodes": [(0, 1003), (1, 1004), (1, 1003)]})
    assert info["task"].tolist() == ["reach-up", "reach-left", "reach-left"]
    assert info["trial"].tolist() == [1003, 1004, 1003]


def test_the_step_after_the_last_starts_the_next_episode(envs):
    first, _ = envs.reset(seed=0)
    for step in range(1, 6):
        observation, *_, truncated, info = envs.step(still(envs))
        assert truncated.tolist() == [step == 5] * 3
        np.testing.assert_allclose(observation["elapsed"], step / 5)
    observation, rewards, terminated, truncated, info = envs.step(still(envs))
    assert not (terminated | truncated).any() and (rewards == 0).all()
    assert (observation["elapsed"] == 0).all() and not info["success"].any()
    assert (observation["states"] != first["states"]).any()


def test_wrappers_of_gymnasium_count_episodes(envs):
    counted = RecordEpisodeStatistics(envs)
    counted.reset(seed=0)
    for _ in range(12):  # 5 steps and a start, twice
        counted.step(still(envs))
    assert list(counted.length_queue) == [5] * 6


def test_what_is_not_there_is_named():
    with pytest.raises(PluginError, match=r"no env 'tpy'\. Did you mean 'toy'"):
        rlcore.make_env("tpy")
    with pytest.raises(ConfigError, match="toy has no task 'reach-out'"):
        rlcore.make_env("toy", "env.eval.tasks=[reach-out]")
