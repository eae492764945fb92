"""A simulator process that is killed or hangs costs time, and nothing else."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import psutil
import pytest
from line_simulator import LineConfig
from rlcore_simulation.env import SimulatedEnv

from rlcore.contracts.protocols import ChunkResult
from rlcore.contracts.specs import Episode
from rlcore.workers.restarting_env import RestartingEnv

ROWS, CHUNKS, STEPS = 4, 4, 5


def play(env: RestartingEnv | SimulatedEnv, disturb: Callable[[int], None]) -> list[ChunkResult]:
    random = np.random.default_rng(0)
    env.reset(options={"episodes": [Episode(0, trial) for trial in range(ROWS)]})
    results = []
    for chunk in range(CHUNKS):
        disturb(chunk)
        if chunk == 2:  # one row is younger than the others from here on
            mask = np.array([False, False, True, False])
            env.reset(options={"reset_mask": mask, "episodes": [Episode(0, 50)] * ROWS})
        actions = random.uniform(-1, 1, (ROWS, STEPS, 1)).astype(np.float32)
        results.append(env.chunk_step(actions))
    return results


def test_a_simulator_that_dies_as_it_demonstrates_does_it_again(make, tmp_path: Path):
    """Two of the processes strike themselves in a step of a demonstration."""
    settings = {"action_noise": 0.1, "speed": 1.0, "stride": 1, "seed": 0}
    episodes = [Episode(trial % 2, trial) for trial in range(6)]

    def shown(env: RestartingEnv | SimulatedEnv) -> dict[Episode, np.ndarray]:
        return {one.episode: one.actions for one in env.demonstrate(episodes, **settings)}

    expected = shown(make(2, 2))
    for name in ("9", "15"):
        (tmp_path / name).touch()
    env = RestartingEnv(lambda: make(2, 2, strikes=str(tmp_path)), restarts=2)
    seen = shown(env)
    assert not list(tmp_path.iterdir())
    assert 1 <= len(env.incidents) <= 2  # both may die at once
    assert all("demonstrated task" in text for text in env.incidents)
    assert seen.keys() == expected.keys()
    for episode, actions in expected.items():
        np.testing.assert_array_equal(seen[episode], actions)


@pytest.mark.quick(1)
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_pixels_and_rewards_are_those_of_an_undisturbed_env(make, how: signal.Signals):
    expected = play(make(ROWS, 2), lambda _: None)
    built: list[SimulatedEnv] = []
    configs: list[LineConfig] = []

    def build() -> SimulatedEnv:
        configs.append(LineConfig())
        built.append(make(ROWS, 2, configs[-1]))
        return built[-1]

    env = RestartingEnv(build, restarts=2)

    def strike(chunk: int) -> None:
        if chunk == 3:
            configs[-1].simulator_timeout = 1.0  # start-up had the longer one
            os.kill(built[-1].process_ids[1], how)

    seen = play(env, strike)
    assert len(built) == 2 and len(env.incidents) == 1
    assert ("signal 9" if how == signal.SIGKILL else "simulator_timeout") in env.incidents[0]
    for ours, theirs in zip(seen, expected, strict=True):
        for name in ("rewards", "valid", "terminated", "truncated", "success"):
            np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))
        np.testing.assert_array_equal(ours.observation["states"], theirs.observation["states"])
        for camera, frames in theirs.observation["cameras"].items():
            np.testing.assert_array_equal(ours.observation["cameras"][camera], frames)
    assert built[0].process_ids == []
    env.close()
    alive = [child for child in psutil.Process().children() if child.is_running()]
    assert not [child for child in alive if child.pid in built[-1].process_ids]
