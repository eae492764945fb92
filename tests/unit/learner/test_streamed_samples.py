"""Streamed samples equal those in memory, to the bit, whatever is cached."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import replace
from functools import partial

import psutil
import pytest
import torch
from demonstration_cases import DEADLY, MISSING, SPEC, lazy
from rlcore_testing.toy_policy import make
from rlcore_testing.toy_settings import ToyModelConfig

from rlcore.contracts.errors import CheckpointError, WorkerError
from rlcore.demonstrations.decoders import Decoders
from rlcore.learner.fit_demonstrations import supervised_samples
from rlcore.learner.streamed_samples import AHEAD, StreamedSamples


@pytest.fixture(scope="module")
def policy():
    return make(ToyModelConfig(), env_spec=SPEC)


@pytest.fixture
def decoders():
    with closing(Decoders(2)) as decoders:
        yield decoders


def test_streamed_samples_are_those_in_memory(policy, decoders):
    """Nothing is kept, a part, all: seven episodes of five frames."""
    demos = [lazy(number) for number in range(4)]
    demos += [replace(demo, frames=dict(demo.frames)) for demo in map(lazy, range(4, 7))]
    whole = supervised_samples(policy, demos)
    draw = torch.Generator().manual_seed(0)
    drawn = [torch.randperm(35, generator=draw)[:8] for _ in range(30)]
    for memory in (0, 3000, 1e9):
        with closing(StreamedSamples(policy, demos, decoders, memory=memory)) as stream:
            assert len(stream) == len(whole) == 35
            assert (stream.weights == whole.weights).all()
            # twice, as the second time what was kept is taken
            for batches in (stream.batches(iter(drawn)), stream.batches(iter(drawn))):
                for rows, (inputs, actions, mask) in zip(drawn, batches, strict=True):
                    assert inputs.keys() == whole.inputs.keys()
                    for name, array in inputs.items():
                        assert torch.equal(array, whole.inputs[name][rows]), name
                        assert array.dtype == whole.inputs[name].dtype
                    assert torch.equal(actions, whole.actions[rows])
                    assert torch.equal(mask, whole.mask[rows])
            kept = sum(array.nbytes for array in stream._cache.values())
            assert kept <= memory and (kept > 0) == (memory > 0)


def test_samples_say_where_in_their_demonstrations_they_are(policy):
    demos = [lazy(number) for number in range(2)]
    samples = supervised_samples(policy, demos)
    frames = [len(demo.frame_steps) for demo in demos]
    assert samples.demonstration.tolist() == [0] * frames[0] + [1] * frames[1]
    expected = [len(demo.actions) - int(step) for demo in demos for step in demo.frame_steps]
    assert samples.steps_left.tolist() == expected and min(expected) >= 1


def test_a_fixed_number_of_batches_is_read_ahead(policy, decoders):
    asked = []

    def rows():
        for step in itertools.count():
            asked.append(step)
            yield torch.tensor([step % 5])

    with closing(StreamedSamples(policy, [lazy(0)], decoders, memory=0)) as stream:
        batches = stream.batches(rows())
        for step in range(20):
            next(batches)
            assert len(asked) == step + 1 + AHEAD
    assert stream.waited > 0


def test_decoders_ignore_an_interrupt(decoders):
    """A terminal sends Ctrl-C to them too, and each would print where it stood."""
    decoders.submit(partial(signal.raise_signal, signal.SIGINT)).result()


@pytest.mark.parametrize(
    ("number", "error", "words"),
    [(MISSING, CheckpointError, ["file 99"]), (DEADLY, WorkerError, ["exit code 3", "sft."])],
)
def test_a_failing_decoder_is_one_error(refused, policy, decoders, number, error, words):
    with (
        closing(StreamedSamples(policy, [lazy(number)], decoders, memory=0)) as stream,
        refused(error, *words, "hint"),
    ):
        next(stream.batches(iter([torch.arange(3)])))


def test_a_stopped_decoder_is_refused_within_its_timeout(refused, policy):
    """SIGSTOP: one error within the limit, and no process is left."""
    with closing(Decoders(1, 60)) as decoders:
        pid = decoders.submit(os.getpid).result()
        decoders._seconds = 1  # a process takes longer to start
        os.kill(pid, signal.SIGSTOP)
        with (
            closing(StreamedSamples(policy, [lazy(0)], decoders, memory=0)) as stream,
            refused(WorkerError, pid, "1 s", "sft.decoder_timeout", text=False),
        ):
            next(stream.batches(iter([torch.arange(3)])))
        assert not psutil.pid_exists(pid)
        decoders._seconds = 60
        again = decoders.submit(os.getpid).result()  # another process answers the next call
        os.kill(again, signal.SIGSTOP)
        since = time.monotonic()
    assert not psutil.pid_exists(again) and time.monotonic() - since < 10


def test_a_stopped_decoder_ends_with_its_parent(tmp_path):
    code = (
        "import os, signal\n"
        "from rlcore.demonstrations.decoders import Decoders\n"
        "pid = Decoders(1).submit(os.getpid).result()\n"
        "print(pid, flush=True)\n"
        "os.kill(pid, signal.SIGSTOP)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, timeout=120)
    pid = int(done.stdout)
    deadline = time.monotonic() + 20
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline
        time.sleep(0.1)
