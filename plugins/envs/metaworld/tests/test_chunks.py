"""The simulator's own part of chunks: success, rewards, frames. The rest is core's."""

from __future__ import annotations

import numpy as np
import pytest
from metaworld_cases import EnvMaker, small_config
from rlcore_env_metaworld.env import make_env

from rlcore.contracts.specs import Episode

TRIAL = Episode(0, 11)
CHUNK = 8


@pytest.fixture(scope="module")
def expert_actions() -> np.ndarray:
    """Actions float32 `[L, 4]` that solve TRIAL of the button task in its last step."""
    env = make_env(small_config(), num_envs=1, rank=0, world_size=1, num_processes=0)
    (played,) = env.demonstrate([TRIAL], action_noise=0.0, speed=1.0, stride=50, seed=0)
    env.close()
    assert played.success
    assert len(played.actions) % CHUNK != 0  # so that the end lies inside a chunk
    return played.actions


def padded(actions: np.ndarray) -> np.ndarray:
    """Actions cut into chunks `[K, 1, CHUNK, 4]`, the last filled up with zeros."""
    chunks = -(-len(actions) // CHUNK)
    full = np.zeros((chunks * CHUNK, 4), dtype=np.float32)
    full[: len(actions)] = actions
    return full.reshape(chunks, 1, CHUNK, 4)


def test_success_inside_a_chunk_ends_the_row_there(
    make: EnvMaker, expert_actions: np.ndarray
) -> None:
    env = make(1, 0)
    env.reset(options={"episodes": [TRIAL]})
    chunks = padded(expert_actions)
    for chunk in chunks[:-1]:
        result = env.chunk_step(chunk)
        assert result.valid.all() and not result.success.any()
        assert not (result.terminated | result.truncated).any() and not result.rewards.any()
    result = env.chunk_step(chunks[-1])
    last = len(expert_actions) % CHUNK - 1  # the step in this chunk that solves the task
    steps = np.arange(CHUNK)
    np.testing.assert_array_equal(result.valid[0], steps <= last)
    np.testing.assert_array_equal(result.terminated[0], steps == last)
    np.testing.assert_array_equal(result.rewards[0], (steps == last).astype(np.float32))
    assert not result.truncated.any() and result.success.all()
    assert result.observation["elapsed"][0] == np.float32(len(expert_actions) / 100)
    after = env.chunk_step(chunks[0])  # an ended row stays as it is, its success too
    assert not after.valid.any() and not after.rewards.any() and after.success.all()
    np.testing.assert_array_equal(after.observation["states"], result.observation["states"])


def test_dense_reward_is_metaworlds_own(make: EnvMaker, expert_actions: np.ndarray) -> None:
    """0 to 10, and 10 where the task is solved (MetaWorld v3's rewards of v2)."""
    env = make(1, 0, reward="dense")
    env.reset(options={"episodes": [TRIAL]})
    rewards = env.chunk_step(expert_actions[None]).rewards[0]
    assert ((rewards > 0) & (rewards <= 10)).all() and rewards[-1] == rewards.max() > 5
