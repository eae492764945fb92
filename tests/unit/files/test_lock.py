"""One writer to a folder: what `flock` says, whoever the file names."""

from __future__ import annotations

import contextlib
import errno
import multiprocessing
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from rlcore.contracts.errors import CheckpointError
from rlcore.files import lock

held = partial(lock.locked, required=True)

HOLD = """
import sys, time
from pathlib import Path
from rlcore.files import lock
with lock.locked(Path(sys.argv[1]), required=True):
    print("held", flush=True)
    time.sleep(60)
"""


@contextlib.contextmanager
def another_process(folder: Path):
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None and process.stdout.readline() == "held\n"
        yield process
    finally:
        process.kill()
        process.wait()


def test_nothing_is_left_of_it(tmp_path: Path):
    with held(tmp_path) as said:
        assert said is None
        assert (tmp_path / lock.NAME).read_text().startswith(f"process {os.getpid()} on ")
    assert not any(tmp_path.iterdir())


def test_a_living_one_keeps_it_and_is_named_and_a_killed_one_does_not(tmp_path: Path):
    with another_process(tmp_path) as process:
        with (
            pytest.raises(CheckpointError, match=f"in use by process {process.pid} on ") as error,
            held(tmp_path),
        ):
            pass
        assert "wait for it or stop it" in error.value.hint
        process.kill()
        process.wait()
        with held(tmp_path) as said:
            assert said.startswith(f"was held by process {process.pid} on ")


def test_one_that_was_killed_and_never_reaped_does_not_keep_it(tmp_path: Path):
    with another_process(tmp_path) as process:
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # dead, and a zombie still
        with held(tmp_path) as said:
            assert said.startswith(f"was held by process {process.pid} on ")


def test_of_two_in_one_process_one_gets_it(tmp_path):
    with held(tmp_path), pytest.raises(CheckpointError, match="in use"), held(tmp_path):
        pass


def test_of_many_at_once_one_gets_it(tmp_path):
    code = HOLD.replace("time.sleep(60)", "sys.stdin.read()")
    several = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    try:
        over = 0
        while over < 2:  # the others end by themselves
            over = sum(process.poll() is not None for process in several)
            time.sleep(0.01)
        (winner,) = (process for process in several if process.poll() is None)
        assert winner.stdout.readline() == "held\n"
        losers = [process for process in several if process is not winner]
        assert all("is in use by" in process.communicate()[1] for process in losers)
    finally:
        for process in several:
            process.kill()
            process.communicate()


def test_children_do_not_keep_it(tmp_path):
    context = multiprocessing.get_context("fork")
    with held(tmp_path):
        forked = context.Process(target=time.sleep, args=(60,))
        forked.start()
        executed = subprocess.Popen(["sleep", "60"])
    try:
        with held(tmp_path) as said:
            assert said is None
    finally:
        forked.kill()
        forked.join()
        executed.kill()
        executed.wait()


def test_what_cannot_be_written_to_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def refused(path: Path, flags: int, mode: int) -> int:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(lock.os, "open", refused)
    with pytest.raises(CheckpointError, match=r"can't write to .*: Read-only file system") as error:
        held(tmp_path).__enter__()
    assert "eval, report, export" in error.value.hint


def test_the_copy_of_a_folder_in_use_is_free(tmp_path: Path):
    run, copy = tmp_path / "run", tmp_path / "copy"
    run.mkdir()
    with another_process(run):
        shutil.copytree(run, copy)
        with held(copy):
            pass


@pytest.mark.parametrize("struck", ["moved", "removed", "copied in its place", "without its lock"])
def test_a_holder_notices_that_its_folder_is_another(tmp_path: Path, struck: str):
    run, elsewhere = tmp_path / "run", tmp_path / "elsewhere"
    run.mkdir()
    with held(run):
        lock.require_lock(run)
        if struck == "without its lock":
            (run / lock.NAME).unlink()
        else:
            run.rename(elsewhere)
        if struck == "removed":
            shutil.rmtree(elsewhere)
        if struck == "copied in its place":
            shutil.copytree(elsewhere, run)
        with pytest.raises(CheckpointError, match="moved, removed or replaced"):
            lock.require_lock(run)
    lock.require_lock(run)  # nobody's now
    if elsewhere.exists():
        with held(elsewhere):
            pass


@pytest.mark.parametrize(
    "text",
    [b"", b"{", b"process \x1b[31m1", b"process \xff", b"x" * 5000, b'{"pid": 1, "host": "h"}'],
    ids=["empty", "cut off", "escapes", "no text", "long", "of an earlier version"],
)
def test_what_nobody_of_ours_wrote_is_nobody(tmp_path: Path, text: bytes):
    (tmp_path / lock.NAME).write_bytes(text)
    with held(tmp_path) as said:
        assert said is None
        (tmp_path / lock.NAME).write_bytes(text)
        with pytest.raises(CheckpointError, match="in use by another process"):
            held(tmp_path).__enter__()


def test_it_is_not_written_through_a_hard_link(tmp_path: Path):
    run, precious = tmp_path / "run", tmp_path / "precious"
    run.mkdir()
    precious.write_text("of somebody else")
    os.link(precious, run / lock.NAME)
    with pytest.raises(CheckpointError, match="is a link or no file") as error:
        held(run).__enter__()
    assert error.value.hint == f"rm {run / lock.NAME}"
    assert precious.read_text() == "of somebody else"
    (run / lock.NAME).unlink()
    with held(run):
        pass


@pytest.mark.parametrize("kind", ["pipe", "folder", "link", "link to nothing"])
def test_what_is_no_file_is_refused(tmp_path: Path, kind: str):
    place = tmp_path / lock.NAME
    (tmp_path / "other").write_text("of somebody else")
    make: dict[str, Callable[[], None]] = {
        "pipe": lambda: os.mkfifo(place),
        "folder": place.mkdir,
        "link": lambda: place.symlink_to("other"),
        "link to nothing": lambda: place.symlink_to("gone"),
    }
    make[kind]()
    with pytest.raises(CheckpointError, match="no file") as error:
        held(tmp_path).__enter__()
    assert error.value.hint == f"rm {'-r ' if kind == 'folder' else ''}{place}"
    assert (tmp_path / "other").read_text() == "of somebody else"


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_file_system_without_flock_is_refused_unless_asked_for(
    tmp_path: Path, number: int, monkeypatch: pytest.MonkeyPatch
):
    def refused(descriptor: int, operation: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(lock.fcntl, "flock", refused)
    with pytest.raises(CheckpointError, match="has no locks") as error:
        held(tmp_path).__enter__()
    assert os.strerror(number) in error.value.message
    assert not any(tmp_path.iterdir())
    for way in ("runner.logger.log_path", "-o flock", "nolock", "runner.logger.require_lock=false"):
        assert way in error.value.hint
    with lock.locked(tmp_path, required=False):
        lock.require_lock(tmp_path)
    assert not (tmp_path / lock.NAME).exists()


def test_a_holder_notices_that_another_took_over(tmp_path: Path):
    with held(tmp_path):  # on a file system whose locks mean nothing to other machines
        (tmp_path / lock.NAME).write_text("process 1 on far.away since 2026-01-01 00:00:00")
        with pytest.raises(CheckpointError, match="moved, removed or replaced"):
            lock.require_lock(tmp_path)
