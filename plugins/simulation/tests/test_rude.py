"""Simulators do what they like with their process: each time one clear error, or none, and no wait.

None of these rests on time: where one fails, it waits for the limit of a command, 120 seconds.
"""

from __future__ import annotations

import faulthandler
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from multiprocessing import Pipe

import numpy as np
import psutil
import pytest
from line_simulator import LineConfig, env_spec
from line_simulator import make_env as make_line
from rlcore_simulation.block import ObservationBlock
from rlcore_simulation.child import limit
from rlcore_simulation.env import SimulatedEnv
from rlcore_simulation.messages import LONGEST, Failure
from rlcore_simulation.translate import ANSWERS, decode, encode
from rlcore_simulation.wire import WireError, pack, unpack
from rude_simulator import Empty, RudeConfig, Speechless, Wordy, make_env
from test_processes import wait_gone

from rlcore.contracts.errors import AssetError, SimulatorError, WorkerError
from rlcore.contracts.specs import Episode

STILL = np.zeros((1, 2, 1), dtype=np.float32)
EPISODES = [Episode(1, 7)]
LONG = "x" * 1_000_000
Rude = Callable[..., SimulatedEnv]


@pytest.fixture
def rude() -> Iterator[Rude]:
    """An env of one row of a simulator that does this, with an episode begun."""
    made: list[SimulatedEnv] = []

    def make(manner: str, config: RudeConfig | None = None) -> SimulatedEnv:
        made.append(make_env(config or RudeConfig(rude=manner)))
        made[-1].reset(options={"episodes": EPISODES})
        return made[-1]

    yield make
    for env in made:
        env.close()


@pytest.mark.parametrize(
    ("error", "summary", "user_error"),
    [
        (Speechless(), "RuntimeError", None),
        (ValueError("\udcff"), "\udcff", None),
        (Wordy(), "12345", AssetError("12345", hint="['make', 'it']")),
        (Empty(), "AttributeError", None),
    ],
)
def test_any_exception_comes_over_the_wire(
    error: Exception, summary: str, user_error: AssetError | None
) -> None:
    try:
        raise error
    except Exception as raised:
        failure = decode(unpack(pack(encode(Failure.of(raised)))), ANSWERS)
    assert failure.summary.startswith(type(error).__name__) and summary in failure.summary
    assert "raise error" in failure.traceback
    assert str(failure.error) == str(user_error) and type(failure.error) is type(user_error)


def test_of_a_long_text_the_beginning_and_the_end_are_kept() -> None:
    try:
        raise ValueError(f"begin {LONG} end")
    except ValueError as error:
        failure = Failure.of(error)
    for text in (failure.summary, failure.traceback):
        assert "ValueError: begin xxx" in text and text.strip().endswith("xxx end")
        assert LONGEST <= len(text) < LONGEST + 100


def test_a_simulator_that_wants_to_end_its_process_is_an_error(refused, rude: Rude) -> None:
    env = rude("base")
    pids = env.process_ids
    with refused(WorkerError, "KeyboardInterrupt", text=False):
        env.chunk_step(STILL)
    env.reset(options={"episodes": EPISODES})
    assert env.process_ids == pids


@pytest.mark.parametrize("call", ["chunk", "demonstration"])
def test_a_death_is_noticed_though_a_child_holds_all_open_files(
    refused, rude: Rude, call: str
) -> None:
    env = rude("die_beside_a_child")
    with refused(SimulatorError, "code 3", text=False):
        if call == "chunk":
            env.chunk_step(STILL)
        else:
            list(env.demonstrate(EPISODES, action_noise=0.0, speed=1.0, stride=1, seed=0))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux leaves memory out of copies")
def test_a_copy_of_a_simulator_has_no_rows() -> None:
    ours = ObservationBlock(1, env_spec(LineConfig()))
    theirs = ObservationBlock(1, env_spec(LineConfig()), os.dup(ours.descriptor))
    theirs.states[:] = 1.0
    if (copy := os.fork()) == 0:
        try:
            faulthandler.disable()
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            theirs.states[:] = 2.0
        finally:
            os._exit(0)
    _, status = os.waitpid(copy, 0)
    assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGSEGV
    assert (ours.states == 1.0).all()
    theirs.close()
    ours.close()


def test_children_of_a_simulator_end_when_rlcore_is_killed() -> None:
    code = (
        "import os, signal, sys\n"
        "sys.path.insert(0, os.getcwd())\n"
        "from rude_simulator import RudeConfig, make_env\n"
        "env = make_env(RudeConfig(rude='leave_a_child'))\n"
        "print(env.reset()[0]['task_descriptions'][0], *env.process_ids, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    folder = os.path.dirname(__file__)
    with tempfile.TemporaryFile() as output:  # a pipe would be held open by what is left
        subprocess.run([sys.executable, "-c", code], stdout=output, cwd=folder)
        output.seek(0)
        pids = [int(word) for word in output.read().split()]
    assert len(pids) == 2
    wait_gone(pids)


def test_a_default_timeout_of_sockets_is_not_for_pipes() -> None:
    socket.setdefaulttimeout(5.0)
    try:
        ours, _theirs = Pipe()
        limit(ours, 60.0)
    finally:
        socket.setdefaulttimeout(None)
    assert os.get_blocking(ours.fileno())


def test_a_process_that_loses_its_pipe_does_not_wait_for_its_threads(refused, rude: Rude) -> None:
    with refused(SimulatorError, "code 1", text=False):
        rude("close_all").chunk_step(STILL)


def test_an_answer_in_another_version_is_refused(refused, rude: Rude) -> None:
    env = rude("answer_in_another_version")
    with refused(WireError, "process 1 of 1", "version 99", "version 1", text=False):
        env.chunk_step(STILL)


@pytest.mark.parametrize("manner", ["answer_twice", "close_output"])
def test_harmless_manners_change_nothing(rude: Rude, manner: str) -> None:
    env, polite = rude(manner), make_line(LineConfig(), num_envs=1)
    polite.reset(options={"episodes": EPISODES})
    for _ in range(3):
        seen, expected = env.chunk_step(STILL), polite.chunk_step(STILL)
        np.testing.assert_array_equal(seen.rewards, expected.rewards)
        np.testing.assert_array_equal(seen.observation["states"], expected.observation["states"])
    process = psutil.Process(env.process_ids[0])
    env.close()
    assert not process.is_running()
    polite.close()


@pytest.mark.parametrize("how", ["close", "kill"])
def test_children_of_a_simulator_end_with_it(refused, rude: Rude, how: str) -> None:
    env = rude("leave_a_child")
    (child,) = map(int, env.reset()[0]["task_descriptions"])
    assert psutil.pid_exists(child)
    if how == "close":
        env.close()
    else:
        os.kill(env.process_ids[0], signal.SIGKILL)
        with refused(SimulatorError, "signal 9", text=False):
            env.chunk_step(STILL)
    wait_gone([child])


def test_no_message_waits_without_end(refused, rude: Rude) -> None:
    """Of a process that is stopped: more than the pipe holds, and half a message."""
    ours, theirs = Pipe()
    limit(ours, 0.1)
    with pytest.raises(BlockingIOError):
        ours.send_bytes(bytes(10_000_000))
    os.write(theirs.fileno(), b"\0\0\0\x64half")
    with pytest.raises(BlockingIOError):
        ours.recv_bytes()
    config = RudeConfig()
    env = rude("", config)
    (member,) = env._fleet._members
    os.kill(env.process_ids[0], signal.SIGSTOP)
    config.simulator_timeout = 0.1
    limit(member._child.pipe, 0.1)
    with refused(SimulatorError, "0.1 s", text=False):
        env.chunk_step(np.zeros((1, 10_000_000, 1), dtype=np.float32))
