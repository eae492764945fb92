"""Simulator processes: errors that name them, an end without leftovers, demonstrations."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import deque

import numpy as np
import psutil
import pytest
from metaworld_cases import BUTTON, CAMERA, REACH, EnvMaker
from rlcore_env_metaworld.env import MetaWorldEnv
from rlcore_env_metaworld.messages import Demonstrate

from rlcore.errors import ConfigError, WorkerError
from rlcore.specs import Episode

EPISODES = [Episode(0, 21), Episode(1, 22)]
STILL = np.zeros((2, 5, 4), dtype=np.float32)


def memory_descriptors() -> int:
    """Open descriptors of shared observation memory in this process."""
    links = (f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd"))
    return sum("memfd:rlcore" in os.readlink(link) for link in links if os.path.islink(link))


def wait_gone(pids: list[int], seconds: float) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if not any(psutil.pid_exists(pid) for pid in pids):
            return True
        time.sleep(0.05)
    return False


def test_a_dead_process_is_named_with_its_rows_and_the_rest_goes_on(make: EnvMaker) -> None:
    env = make(2, 2, tasks=[BUTTON, REACH])
    env.reset(options={"episodes": EPISODES})
    pid = env.process_ids[1]
    os.kill(pid, signal.SIGKILL)
    begin = time.monotonic()
    with pytest.raises(WorkerError) as caught:
        env.chunk_step(STILL)
    assert time.monotonic() - begin < 5.0
    text = str(caught.value)
    assert f"simulator process 2 of 2 (pid {pid}) died (killed by signal 9)" in text
    assert "rows 1 to 1" in text
    # the other process is still in step with its commands
    observation, _ = env.reset(
        options={"reset_mask": np.array([True, False]), "episodes": EPISODES}
    )
    assert observation["elapsed"][0] == 0.0
    with pytest.raises(WorkerError, match="is not running"):
        env.chunk_step(STILL)


def test_a_hung_process_is_named_with_row_and_episode_in_time(make: EnvMaker) -> None:
    env = make(2, 1, tasks=[BUTTON, REACH], max_episode_steps=5000)
    env.reset(options={"episodes": EPISODES})
    (pid,) = env.process_ids
    env._config.simulator_timeout = 1.5  # start-up had the longer one
    env.chunk_step_async(np.zeros((2, 5000, 4), dtype=np.float32))
    while not env._block.busy[0]:  # soon: a row takes seconds for 5000 steps
        time.sleep(0.001)
    os.kill(pid, signal.SIGSTOP)
    begin = time.monotonic()
    with pytest.raises(WorkerError) as caught:
        env.chunk_step_wait()
    assert time.monotonic() - begin < 3.0
    text = str(caught.value)
    assert "simulator process 1 of 1" in text and "did not answer within 1.5 s" in text
    assert f"row 0, task '{BUTTON}' trial 21" in text
    assert wait_gone([pid], 5.0)


def test_a_failure_in_the_simulator_reaches_the_caller(make: EnvMaker) -> None:
    env = make(1, 1)
    env.reset()
    wish = Demonstrate(Episode(99, 0), action_noise=0.0, speed=1.0, stride=1, seed=0, max_steps=9)
    with pytest.raises(WorkerError) as caught:  # task 99 gets past no check of the env itself
        list(env._demonstrate(deque([wish])))
    assert "IndexError" in str(caught.value) and "simulator process 1 of 1" in str(caught.value)


def test_close_ends_processes_and_frees_the_memory(make: EnvMaker) -> None:
    before = memory_descriptors()
    env = make(2, 1)
    env.reset()
    pids = env.process_ids
    # the block and the duplicate that Python's mmap keeps
    assert len(pids) == 1 and memory_descriptors() == before + 2
    env.close()
    assert not any(psutil.pid_exists(pid) for pid in pids)
    assert memory_descriptors() == before
    env.close()


def test_no_orphans_when_the_parent_is_killed() -> None:
    code = (
        "import os, signal, sys\n"
        "from metaworld_cases import small_config\n"
        "from rlcore_env_metaworld.env import make_env\n"
        "env = make_env(small_config(), num_envs=1, rank=0, world_size=1, num_processes=1)\n"
        "print(*env.process_ids, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    folder = os.path.dirname(__file__)
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, cwd=folder)
    pids = [int(word) for word in done.stdout.split()]
    assert len(pids) == 1
    assert wait_gone(pids, 10.0)


# -- demonstrations -------------------------------------------------------------------------

CLEAN = {"action_noise": 0.0, "speed": 1.0, "stride": 4, "seed": 0}


def test_demonstrations_succeed_and_replay(shared_env: MetaWorldEnv) -> None:
    env = shared_env
    wanted = [Episode(task, trial) for task in (0, 1) for trial in (0, 1)]
    played = list(env.demonstrate(wanted, **CLEAN))
    assert sorted(each.episode for each in played) == wanted
    for each in played:
        length = len(each.actions)
        assert each.success and each.states.shape == (length, 4)
        assert each.actions.dtype == each.states.dtype == np.float32
        assert np.abs(each.actions).max() <= 1.0
        np.testing.assert_array_equal(each.frame_steps, np.arange(0, length, 4))
        assert each.frames[CAMERA].shape == (len(each.frame_steps), 32, 32, 3)
        assert each.task_description == env.spec.descriptions[each.episode.task]
        # the stored actions, played again, succeed in the very last step
        start, _ = env.reset(options={"episodes": [each.episode] * 3})
        np.testing.assert_array_equal(start["states"][0], each.states[0])
        np.testing.assert_array_equal(start["cameras"][CAMERA][0], each.frames[CAMERA][0])
        result = env.chunk_step(np.stack([each.actions, *np.zeros((2, length, 4), np.float32)]))
        assert np.flatnonzero(result.terminated[0]).tolist() == [length - 1]


def test_demonstrating_leaves_the_rows_alone(shared_env: MetaWorldEnv) -> None:
    env = shared_env
    env.reset()
    still = np.zeros((3, 5, 4), dtype=np.float32)
    first = env.chunk_step(still)
    wanted = [Episode(0, trial) for trial in range(5)]
    next(iter(env.demonstrate(wanted, **CLEAN)))  # given up half-way
    second = env.chunk_step(still)
    assert second.valid.all() and second.observation["elapsed"][0] == np.float32(0.1)
    assert first.observation["elapsed"][0] == np.float32(0.05)


def test_noise_is_keyed_and_not_stored(make: EnvMaker) -> None:
    env = make(1, 0)

    def play(seed: int, noise: float):
        settings = {"speed": 1.0, "stride": 50, "seed": seed, "action_noise": noise}
        (played,) = env.demonstrate([Episode(0, 3)], **settings)
        return played

    noisy, same, other, clean = play(0, 0.3), play(0, 0.3), play(1, 0.3), play(0, 0.0)
    np.testing.assert_array_equal(noisy.states, same.states)
    np.testing.assert_array_equal(noisy.actions, same.actions)
    assert not np.array_equal(noisy.states[1], other.states[1])
    # one start, so one clean first action, but another one executed
    np.testing.assert_array_equal(noisy.actions[0], clean.actions[0])
    assert not np.array_equal(noisy.states[1], clean.states[1])


def test_speed_scales_motion_but_not_the_gripper(make: EnvMaker) -> None:
    env = make(1, 0)
    (full,) = env.demonstrate([Episode(0, 3)], **CLEAN)
    (slow,) = env.demonstrate([Episode(0, 3)], **(CLEAN | {"speed": 0.5}))
    np.testing.assert_allclose(slow.actions[0, :3], 0.5 * full.actions[0, :3], rtol=1e-6)
    assert slow.actions[0, 3] == full.actions[0, 3]
    assert len(slow.actions) > len(full.actions)


def test_demonstrations_end_at_the_time_limit(make: EnvMaker) -> None:
    env = make(1, 0, max_episode_steps=10)
    (played,) = env.demonstrate([Episode(0, 3)], **CLEAN)
    assert not played.success and len(played.actions) == 10


def test_bad_demonstration_settings_are_refused(make: EnvMaker) -> None:
    with pytest.raises(ConfigError, match=r"speed in \(0, 1\]"):
        make(1, 0).demonstrate([Episode(0, 0)], **(CLEAN | {"speed": 1.5}))
