"""Simulator processes: errors that name them, and an end without leftovers."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import subprocess
import sys
import time

import numpy as np
import psutil
import pytest
from line_simulator import LineConfig, make_env
from rlcore_simulation.process import SimulatorProcess

from rlcore.contracts.errors import AssetError, SimulatorError, WorkerError
from rlcore.contracts.specs import Episode

LONGEST = 60.0  # seconds
EPISODES = [Episode(0, 21), Episode(1, 22)]
STILL = np.zeros((2, 5, 1), dtype=np.float32)
POISONED = np.full((2, 5, 1), 9.0, dtype=np.float32)


def memory_descriptors() -> int:
    """Open descriptors of shared observation memory in this process."""
    gc.collect()  # what other tests have left is not to go while this one counts
    found = 0
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # another thread has closed it
            found += "memfd:rlcore" in os.readlink(f"/proc/self/fd/{name}")
    return found


def wait_gone(pids: list[int]) -> None:
    """Wait for their end. Whose parent has died may stay as a zombie: not every system has somebody
    who collects those."""
    end = time.monotonic() + LONGEST
    while any(runs(pid) for pid in pids):
        assert time.monotonic() < end
        time.sleep(0.05)


def runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_an_error_names_a_dead_process_and_its_rows_and_others_go_on(refused, make) -> None:
    env = make(2, 2)
    env.reset(options={"episodes": EPISODES})
    pid = env.process_ids[1]
    os.kill(pid, signal.SIGKILL)
    words = ("process 2 of 2", f"pid {pid}", "signal 9", "rows 1 to 1")
    with refused(SimulatorError, *words, text=False):
        env.chunk_step(STILL)
    # the other process is still in step with its commands
    observation, _ = env.reset(
        options={"reset_mask": np.array([True, False]), "episodes": EPISODES}
    )
    assert observation["elapsed"][0] == 0.0
    with refused(SimulatorError, "process 2 of 2", text=False):
        env.chunk_step(STILL)


def test_a_timeout_names_the_hung_process_the_row_and_the_episode(refused, make) -> None:
    config = LineConfig(pause=60.0)  # hangs in the first step of row 0
    env = make(2, 1, config)
    env.reset(options={"episodes": EPISODES})
    (pid,) = env.process_ids
    config.simulator_timeout = 1.5  # start-up had the longer one
    words = ("process 1 of 1", "1.5 s", "row 0", "left", "trial 21")
    with refused(SimulatorError, *words, text=False):
        env.chunk_step(STILL)
    wait_gone([pid])


def test_a_failure_in_the_simulator_reaches_the_caller(refused, make) -> None:
    env = make(2, 1)
    env.reset()
    words = ("ValueError: poisoned", "process 1 of 1")
    with refused(WorkerError, *words, text=False):  # no SimulatorError: a retry would fail too
        env.chunk_step(POISONED)


def test_a_simulator_that_can_not_be_built_fails_at_the_first_command(refused, make) -> None:
    env = make(1, 1, pause=-1.0)
    with refused(WorkerError, "ValueError: pause", text=False):
        env.reset()


def test_a_user_error_of_a_process_keeps_its_class_and_hint(refused, make) -> None:
    """The class is the nearest of ours: importing the plugin's may import much."""
    env = make(2, 1, asset="/no/such/file")
    with refused(AssetError, "process 1 of 1", "/no/such/file", "make it"):
        env.reset()


def test_processes_stay_in_step_when_one_lacks_something(refused, make, tmp_path) -> None:
    env = make(2, 2, asset=str(tmp_path))
    env.reset(options={"episodes": EPISODES})
    tmp_path.rename(tmp_path.with_name("gone"))
    with refused(AssetError, "process 1 of 2"):  # row 1 has its simulator already
        env.reset(options={"episodes": [Episode(1, 3), Episode(1, 4)]})
    only = {"reset_mask": np.array([False, True]), "episodes": [Episode(1, 5)] * 2}
    assert env.reset(options=only)[0]["task_descriptions"][1] == "go right in trial 5"


def test_in_this_process_errors_come_as_they_are(make) -> None:
    env = make(2, 0)
    env.reset()
    with pytest.raises(ValueError):
        env.chunk_step(POISONED)


def test_close_ends_processes_and_frees_the_memory(refused, make) -> None:
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
    with refused(WorkerError, "line"):
        env.chunk_step(STILL)


def test_an_env_that_can_not_be_made_leaves_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(config: LineConfig) -> None:
        raise ValueError("no pool")

    monkeypatch.setattr("line_simulator.make_pool", broken)
    before = memory_descriptors()
    for _ in range(2):
        with pytest.raises(ValueError):
            make_env(LineConfig(), num_envs=1)
    assert memory_descriptors() == before


def test_no_orphans_when_the_parent_is_killed() -> None:
    code = (
        "import os, signal, sys\n"
        "from line_simulator import LineConfig, make_env\n"
        "env = make_env(LineConfig(), num_envs=1, num_processes=1)\n"
        "print(*env.process_ids, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    folder = os.path.dirname(__file__)
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, cwd=folder)
    pids = [int(word) for word in done.stdout.split()]
    assert len(pids) == 1
    wait_gone(pids)


@pytest.mark.long
def test_an_abandoned_demonstration_raises_no_error(refused, make) -> None:
    """An iterator that is left in the middle may end when its env is long closed."""
    settings = {"action_noise": 0.0, "speed": 1.0, "stride": 1, "seed": 0}
    env = make(2, 2)
    left = env.demonstrate([Episode(0, trial) for trial in range(6)], **settings)
    next(left)
    env.close()
    left.close()
    env = make(2, 2, pause=0.1)
    left = env.demonstrate([Episode(0, trial) for trial in range(6)], **settings)
    next(left)
    os.kill(env.process_ids[0], signal.SIGKILL)
    left.close()
    with refused(SimulatorError, "process 1 of 2", text=False):  # now it matters
        env.reset(options={"episodes": EPISODES})


def test_all_processes_are_ended_before_one_is_awaited(make, monkeypatch) -> None:
    """So that many which hang cost no more time than one."""
    env = make(3, 3)
    seen: list[list[object]] = []
    close = SimulatorProcess.close

    def noted(self: SimulatorProcess) -> None:
        seen.append([member._child and member._child.pipe for member in env._fleet._members])
        close(self)

    monkeypatch.setattr(SimulatorProcess, "close", noted)
    env.close()
    assert seen == [[None] * 3] * 3 and env.process_ids == []


def test_the_spec_has_the_process_of_each_row(make) -> None:
    assert make(5, 2).spec.processes == (0, 0, 1, 1, 1)
    assert make(2, 0).spec.processes == (0, 0)
