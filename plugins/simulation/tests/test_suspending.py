"""Envs that free an accelerator while others use it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from line_simulator import LineConfig, env_spec
from rlcore_simulation.simulator import SimulatorSource
from rlcore_simulation.suspending import SuspendingEnv

from rlcore.contracts.specs import Episode
from rlcore.workers.restarting_env import RestartingEnv

EPISODES = [Episode(0, 3), Episode(1, 11), Episode(1, 5)]


@pytest.fixture
def pair() -> Iterator[Any]:
    """Two equal envs, of which only the first is suspended: `pair(processes, **settings)`."""
    made: list[SuspendingEnv] = []

    def make(processes: int, **settings: Any) -> list[SuspendingEnv]:
        config = LineConfig(**settings)
        source = SimulatorSource("line_simulator:make_pool", name="line simulator")
        made.extend(
            SuspendingEnv(
                env_spec(config), source, config, num_envs=3, first_slot=0, num_processes=processes
            )
            for _ in range(2)
        )
        return made

    yield make
    for env in made:
        env.close()


def slept(env: SuspendingEnv) -> None:
    for _ in range(2):
        env.suspend()
        assert env.process_ids == []
    for _ in range(2):
        env.resume()


def moves(value: float, steps: int) -> np.ndarray:
    return np.full((3, steps, 1), value, dtype=np.float32)


def same(one: Any, other: Any) -> None:
    for name in ("rewards", "terminated", "truncated", "valid", "success"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), name)
    for part in ("states", "elapsed", "task_descriptions"):
        np.testing.assert_array_equal(one.observation[part], other.observation[part], part)
    for name, frames in one.observation["cameras"].items():
        np.testing.assert_array_equal(frames, other.observation["cameras"][name])


@pytest.mark.parametrize("processes", [0, 2])
def test_episodes_go_on_where_they_were(pair, monkeypatch, processes: int) -> None:
    """Row 1 is started twice, the second time between two chunks, and row 0 ends before: of each
    row its last episode is brought back, if it runs."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    sleeping, awake = pair(processes, max_episode_steps=30, use_rel_reward=True)
    for env in (sleeping, awake):
        env.reset(options={"episodes": EPISODES})
        env.chunk_step(moves(-1.0, 4))
        again = np.array([False, True, False])
        env.reset(options={"reset_mask": again, "episodes": [None, Episode(1, 20), None]})
        env.chunk_step(moves(-0.5, 18))  # row 0 arrives on the left
    slept(sleeping)
    for value in (0.1, 0.4):
        result = sleeping.chunk_step(moves(value, 2))
        same(result, awake.chunk_step(moves(value, 2)))
    assert result.success.tolist() == [True, False, False]


def test_films_go_on(pair) -> None:
    sleeping, awake = pair(0)
    for env in (sleeping, awake):
        env.reset(options={"episodes": EPISODES})
        env.record([2])
        env.chunk_step(moves(0.3, 2))
    slept(sleeping)
    films = []
    for env in (sleeping, awake):
        env.chunk_step(moves(0.3, 3))
        films.append(env.recorded())
    assert [list(film) for film in films] == [[2], [2]]
    np.testing.assert_array_equal(films[0][2], films[1][2])
    assert len(films[0][2]) == 5


def test_a_process_that_dies_before_it_sleeps_costs_nothing_but_time(pair, monkeypatch) -> None:
    """Its frames are to be taken then."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    envs = pair(1)
    awake, first = envs
    env = RestartingEnv(envs.pop, restarts=1)
    _, replacement = pair(1)[-2:]
    for each in (env, awake):
        each.reset(options={"episodes": EPISODES})
        each.record([2])
        each.chunk_step(moves(0.3, 2))
    os.kill(first.process_ids[0], signal.SIGKILL)
    env.suspend()
    assert len(env.incidents) == 1 and replacement.process_ids == []
    env.resume()
    same(env.chunk_step(moves(0.1, 2)), awake.chunk_step(moves(0.1, 2)))
    env.close()


def test_an_env_that_never_played_can_be_suspended(pair) -> None:
    sleeping, awake = pair(0)
    slept(sleeping)
    seen = [env.reset(seed=4)[0]["states"] for env in (sleeping, awake)]
    np.testing.assert_array_equal(*seen)
