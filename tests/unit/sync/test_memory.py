"""Memory that processes share: no name, no leftovers."""

from __future__ import annotations

import errno
import gc
import multiprocessing
import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from rlcore.errors import WorkerError
from rlcore.sync.memory import NAME, Lent, can_share

pytestmark = pytest.mark.skipif(not can_share(), reason="memory without a name needs Linux")
SIZE = 5000


def mapped() -> list[str]:
    """Where memory of ours is mapped in this process."""
    gc.collect()  # what other tests left
    lines = Path("/proc/self/maps").read_text().splitlines()
    return [line for line in lines if NAME in line]


def lend_until_killed(pipe) -> None:
    """In a process of its own: fill memory, tell where it is, wait for the end."""
    lent = Lent(SIZE)
    lent.data.fill_(7)
    pipe.send(lent.place)
    pipe.recv()


def test_what_is_written_is_read_elsewhere_in_place():
    lent = Lent(SIZE)
    seen = lent.place.open()
    lent.data[3] = 9
    assert len(seen) == SIZE and seen[3] == 9 and seen.sum() == 9


def test_memory_of_another_process_is_not_taken_for_it():
    lent = Lent(SIZE)
    with pytest.raises(OSError, match="don't see each other's files"):
        replace(lent.place, file=(0, 0)).open()


def test_it_has_no_name_and_is_gone_with_its_last_holder():
    before = mapped()
    lent = Lent(SIZE)
    seen = lent.place.open()
    names = [line.split(maxsplit=5)[5] for line in mapped()[len(before) :]]
    assert names and set(names) == {f"/memfd:{NAME} (deleted)"}
    lent.close()
    with pytest.raises(OSError, match="No such file"):
        lent.place.open()
    assert not seen.any()
    del lent, seen
    assert mapped() == before


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of forks where there are threads
def test_a_killed_lender_leaves_nothing():
    before = mapped()
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    process = context.Process(target=lend_until_killed, args=(theirs,))
    process.start()
    place = ours.recv()
    seen = place.open()
    assert place.pid == process.pid
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert torch.equal(seen, torch.full((SIZE,), 7, dtype=torch.uint8))  # until this one lets go
    with pytest.raises(OSError, match="No such file"):
        place.open()
    del seen
    assert mapped() == before


def test_too_little_memory_is_one_error(monkeypatch):
    before, opened = mapped(), len(os.listdir("/proc/self/fd"))

    def none_left(fd, offset, size):
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    monkeypatch.setattr(os, "posix_fallocate", none_left)
    with pytest.raises(WorkerError) as caught:
        Lent(3 * 2**20)
    assert caught.value.message == (
        "3 MiB of memory to send weights through are not to be had: Cannot allocate memory"
    )
    assert caught.value.hint == "rollout.sync=object_store does without"
    assert mapped() == before and len(os.listdir("/proc/self/fd")) == opened
