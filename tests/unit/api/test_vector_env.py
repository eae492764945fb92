"""An env as gymnasium sees it."""

from __future__ import annotations

from collections.abc import Iterator

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers.vector import RecordEpisodeStatistics
from rlcore_testing.toy_settings import GOALS

import rlcore
from rlcore.api.vector_env import GymnasiumVectorEnv
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


def test_spaces_contain_observations_and_actions(envs):
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
    first, first_info = envs.reset(seed=4)
    envs.reset()
    again, again_info = envs.reset(seed=4)
    assert (first["states"] == again["states"]).all()
    assert first_info["trial"].tolist() == again_info["trial"].tolist()
    assert set(first_info["task"]) <= {"reach-up", "reach-left"}


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


def test_an_unknown_env_or_task_is_named(refused):
    with refused(PluginError, "'tpy'", "'toy'", text=False):  # it lists the installed envs
        rlcore.make_env("tpy")
    with refused(ConfigError, "toy", "'reach-out'"):
        rlcore.make_env("toy", "env.eval.tasks=[reach-out]")


def trials(envs: GymnasiumVectorEnv, seed: object) -> list[int]:
    return envs.reset(seed=seed)[1]["trial"].tolist()


def test_each_row_has_a_seed_of_its_own(envs):
    # row i of an int seed n is seeded with n + i, as in gymnasium.vector.SyncVectorEnv
    assert trials(envs, 3) == trials(envs, [3, 4, 5]) == trials(envs, np.array([3, 4, 5]))
    alike, others = trials(envs, [3, 3, 3]), trials(envs, [3, 4, 99])
    assert len(set(alike)) == 1 and others[0] == alike[0]
    first = rlcore.make_env("toy", TASKS, LIMIT, num_envs=1)
    assert trials(first, [99]) == others[2:]
    first.close()


def test_a_row_without_a_seed_goes_on_with_its_draws(envs):
    trials(envs, [3, 4, 5])
    second = trials(envs, None)
    assert trials(envs, [3, 4, 5]) != second
    assert trials(envs, [7, None, None])[1:] == second[1:]


def test_the_next_start_of_a_row_is_that_of_its_seed(envs):
    """Row 2 ends alone in the first env, with all others in the second: its draws are its own."""
    envs.reset(seed=[1, 2, 3])
    envs.reset(seed=[8, 9, None], options={"reset_mask": np.array([True, True, False])})
    after = [envs.step(still(envs))[-1]["trial"].tolist() for _ in range(6)][-1]
    other = rlcore.make_env("toy", TASKS, LIMIT, num_envs=3)
    other.reset(seed=[5, 6, 3])
    assert [other.step(still(envs))[-1]["trial"].tolist() for _ in range(6)][-1][2] == after[2]
    other.close()


def test_rows_out_of_the_mask_keep_their_episode(envs):
    envs.reset(seed=1)
    for _ in range(3):
        before, *_, info = envs.step(np.full((3, 2), 0.5, np.float32))
    mask = np.array([True, False, True])
    options = {"reset_mask": mask}
    after, info_after = envs.reset(seed=[7, 7, 7], options=options)
    assert options == {"reset_mask": mask} and mask.tolist() == [True, False, True]
    for name in ("states", "elapsed"):
        np.testing.assert_array_equal(after[name][1], before[name][1])
    np.testing.assert_array_equal(after["cameras"]["top"][1], before["cameras"]["top"][1])
    assert after["elapsed"].tolist() == pytest.approx([0.0, 3 / 5, 0.0])
    trials_after = info_after["trial"]
    assert trials_after[1] == info["trial"][1] and trials_after[0] == trials_after[2]
    ends = np.array([envs.step(still(envs))[3] for _ in range(5)])
    assert ends.T.tolist() == [
        [False] * 4 + [True],
        [False, True] + [False] * 3,
        [False] * 4 + [True],
    ]


def test_success_of_a_row_out_of_the_mask_stays():
    envs = rlcore.make_env("toy", TASKS, num_envs=2)
    seen, _ = envs.reset(options={"episodes": [(0, 1003), (0, 1004)]})
    for _ in range(12):  # at most 1.4 away in each direction, 0.15 a step
        seen, *_, info = envs.step((np.float32(GOALS["reach-up"]) - seen["states"]) / 0.15)
        if info["success"].all():
            break
    _, info_after = envs.reset(options={"reset_mask": np.array([True, False])})
    envs.close()
    assert info["success"].all() and info_after["success"].tolist() == [False, True]


@pytest.mark.parametrize(
    ("arguments", "error", "named"),
    [
        ({"seed": [1, 2]}, ValueError, "2"),
        ({"seed": [1, -2, 3]}, gymnasium.error.Error, "-2"),
        ({"seed": [1, 2.5, 3]}, gymnasium.error.Error, "2.5"),
        ({"seed": -1}, gymnasium.error.Error, "-1"),
        ({"seed": "abc"}, gymnasium.error.Error, "'abc'"),
        ({"seed": 1.5}, gymnasium.error.Error, "1.5"),
        ({"options": {"reset_mask": [True, False, True]}}, TypeError, "reset_mask"),
        ({"options": {"reset_mask": np.array([1, 0, 1])}}, TypeError, "reset_mask"),
        ({"options": {"reset_mask": np.array([True])}}, ValueError, "reset_mask"),
        ({"options": {"reset_mask": np.zeros(3, bool)}}, ValueError, "reset_mask"),
        ({"options": {"reset_masks": np.ones(3, bool)}}, ConfigError, "'reset_mask'"),
        ({"options": {"episodes": [(0, 1000)]}}, ConfigError, "episodes"),
        ({"options": {"episodes": [(0, 1000), (2, 1000), (0, 1000)]}}, ConfigError, "(2, 1000)"),
        ({"options": {"episodes": [(0, 1000), (0, -1), (0, 1000)]}}, ConfigError, "(0, -1)"),
        ({"options": {"episodes": [("reach-up", 1000)] * 3}}, ConfigError, "('reach-up', 1000)"),
    ],
)
def test_a_wrong_reset_is_refused_and_changes_nothing(envs, refused, arguments, error, named):
    envs.reset(seed=1)
    before, *_, info_before = envs.step(still(envs))
    with refused(error, named):
        envs.reset(**arguments)
    after, *_, info = envs.step(still(envs))
    assert info["trial"].tolist() == info_before["trial"].tolist()
    assert (after["elapsed"] > before["elapsed"]).all()


def test_calls_out_of_their_order_raise_the_errors_of_gymnasium():
    envs = rlcore.make_env("toy", TASKS, LIMIT, num_envs=2)
    with pytest.raises(gymnasium.error.ResetNeeded):
        envs.step(still(envs))
    with pytest.raises(gymnasium.error.ResetNeeded, match="row 1"):
        envs.reset(options={"reset_mask": np.array([True, False])})
    envs.reset(seed=0)
    with pytest.raises(ValueError, match=r"\(2, 2\)"):
        envs.step(np.zeros((2, 3), np.float32))
    envs.close()
    envs.close()
    with pytest.raises(gymnasium.error.ClosedEnvironmentError):
        envs.step(still(envs))
    with pytest.raises(gymnasium.error.ClosedEnvironmentError):
        envs.reset(seed=0)
