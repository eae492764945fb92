"""Chunks: where episodes end, what is rewarded, what is valid, and what is drawn."""

from __future__ import annotations

import numpy as np
import pytest
from metaworld_cases import BUTTON, CAMERA, REACH, EnvMaker
from rlcore_env_metaworld.env import MetaWorldEnv
from rlcore_env_metaworld.render import Renderer

from rlcore.errors import ConfigError, WorkerError
from rlcore.specs import Episode

TRIAL = Episode(0, 11)
CHUNK = 8


@pytest.fixture(scope="module")
def expert_actions() -> np.ndarray:
    """Actions float32 `[L, 4]` that solve TRIAL of the button task in its last step."""
    from metaworld_cases import small_config

    config = small_config(tasks=[BUTTON])
    env = MetaWorldEnv(config, num_envs=1, first_slot=0, num_processes=0)
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


def test_ignored_terminations_leave_only_the_time_limit(
    make: EnvMaker, expert_actions: np.ndarray
) -> None:
    length = len(expert_actions)
    env = make(1, 0, ignore_terminations=True, max_episode_steps=length + 3)
    env.reset(options={"episodes": [TRIAL]})
    result = env.chunk_step(np.concatenate([expert_actions, expert_actions[-5:]])[None])
    assert not result.terminated.any() and result.success.all()
    np.testing.assert_array_equal(np.flatnonzero(result.truncated[0]), [length + 2])
    np.testing.assert_array_equal(result.valid[0], np.arange(length + 5) < length + 3)
    assert result.rewards[0, length - 1] == 1.0 and not result.rewards[0, : length - 1].any()


def test_sparse_reward_is_scaled(make: EnvMaker, expert_actions: np.ndarray) -> None:
    env = make(1, 0, reward_coef=5.0)
    env.reset(options={"episodes": [TRIAL]})
    rewards = env.chunk_step(expert_actions[None]).rewards[0]
    assert rewards[-1] == 5.0 and rewards.sum() == 5.0


# -- what is drawn --------------------------------------------------------------------------


@pytest.fixture
def draws(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows by one entry per frame drawn in this process."""
    drawn: list[int] = []
    original = Renderer.draw

    def counting(self: Renderer, *args: object) -> None:
        drawn.append(1)
        original(self, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(Renderer, "draw", counting)
    return drawn


def test_one_frame_a_chunk_and_none_after_success(
    make: EnvMaker, expert_actions: np.ndarray, draws: list[int]
) -> None:
    env = make(1, 0)
    env.reset(options={"episodes": [TRIAL]})
    chunks = padded(expert_actions)
    for chunk in chunks:
        env.chunk_step(chunk)
    assert len(draws) == 1 + len(chunks) - 1  # the start, each chunk, not the one that succeeds


@pytest.mark.parametrize(("render_final", "expected"), [(True, 2), (False, 1)])
def test_the_final_frame_of_a_truncated_row_can_be_left_out(
    make: EnvMaker, draws: list[int], render_final: bool, expected: int
) -> None:
    env = make(1, 0, max_episode_steps=4, render_final=render_final)
    env.reset()
    before = env.chunk_step(np.ones((1, 5, 4), dtype=np.float32))
    assert before.truncated.any() and len(draws) == expected


def test_rows_on_record_keep_every_frame(
    shared_env: MetaWorldEnv, expert_actions: np.ndarray
) -> None:
    env = shared_env
    env.record([2])
    start, _ = env.reset(options={"episodes": [Episode(0, 2), Episode(0, 2), TRIAL]})
    still = np.zeros_like(expert_actions)
    result = env.chunk_step(np.stack([still, still, expert_actions]))
    assert result.success.tolist() == [False, False, True]
    frames = env.recorded()
    assert list(frames) == [2]
    # the start and one after each step, the last of which ends the episode
    assert len(frames[2]) == 1 + len(expert_actions)
    np.testing.assert_array_equal(frames[2][0], start["cameras"][CAMERA][2])
    assert frames[2][0].shape == (32, 32, 3)
    assert not np.array_equal(frames[2][0], frames[2][-1])
    assert env.recorded() == {}
    env.record([])
    env.reset()
    assert env.recorded() == {}


# -- resets ---------------------------------------------------------------------------------


def test_reset_without_episodes_takes_those_of_the_split(make: EnvMaker) -> None:
    """Slots 0, 1, 2 of two tasks from seed 7: (0, 10007), (1, 10007), (0, 10008)."""
    env = make(3, 0, tasks=[BUTTON, REACH], split="heldout")
    plain, _ = env.reset(seed=7)
    named, _ = env.reset(
        options={"episodes": [Episode(0, 10_007), Episode(1, 10_007), Episode(0, 10_008)]}
    )
    np.testing.assert_array_equal(plain["states"], named["states"])
    np.testing.assert_array_equal(plain["cameras"][CAMERA], named["cameras"][CAMERA])


def test_bad_actions_and_episodes_are_refused(make: EnvMaker) -> None:
    env = make(2, 0)
    env.reset()
    with pytest.raises(ValueError, match=r"must be \[2, C, 4\], got \[2, 5, 7\]"):
        env.chunk_step(np.zeros((2, 5, 7), dtype=np.float32))
    bad = np.zeros((2, 5, 4), dtype=np.float32)
    bad[1, 3, 0] = np.nan
    with pytest.raises(WorkerError, match=r"rows \[1\] are not finite"):
        env.chunk_step(bad)
    with pytest.raises(ConfigError, match=r"task must be in \[0, 0\]"):
        env.reset(options={"episodes": [Episode(1, 0), Episode(0, 0)]})


def test_chunks_can_be_started_and_awaited(shared_env: MetaWorldEnv) -> None:
    env = shared_env
    env.reset()
    env.chunk_step_async(np.zeros((3, 5, 4), dtype=np.float32))
    with pytest.raises(RuntimeError, match="under way"):
        env.reset()
    assert env.chunk_step_wait().valid.all()
    with pytest.raises(RuntimeError, match="without chunk_step_async"):
        env.chunk_step_wait()
