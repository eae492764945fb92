"""One writer to a folder: `flock` decides, not the text of the file."""

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


def test_a_released_lock_leaves_no_file(tmp_path: Path):
    with held(tmp_path) as message:
        assert message is None
        assert (tmp_path / lock.NAME).read_text().startswith(f"process {os.getpid()} on ")
    assert not any(tmp_path.iterdir())


def test_a_running_process_keeps_the_lock_and_is_named(refused, tmp_path: Path):
    with (
        another_process(tmp_path) as process,
        refused(CheckpointError, process.pid, tmp_path, text=False),
        held(tmp_path),
    ):
        pass


@pytest.mark.parametrize("reaped", [True, False])
def test_a_killed_process_loses_the_lock_and_is_named(tmp_path: Path, reaped: bool):
    with another_process(tmp_path) as process:
        process.kill()
        # without WNOWAIT it is gone, with it a zombie still
        os.waitid(os.P_PID, process.pid, os.WEXITED | (0 if reaped else os.WNOWAIT))
        with held(tmp_path) as message:
            assert f"process {process.pid} on " in message


def test_a_lock_is_held_once_in_a_process(refused, tmp_path):
    with held(tmp_path), refused(CheckpointError, tmp_path, text=False), held(tmp_path):
        pass


def test_one_of_many_processes_gets_the_lock(tmp_path):
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
        assert all("CheckpointError" in process.communicate()[1] for process in losers)
    finally:
        for process in several:
            process.kill()
            process.communicate()


def test_children_do_not_keep_the_lock(tmp_path):
    context = multiprocessing.get_context("fork")
    with held(tmp_path):
        forked = context.Process(target=time.sleep, args=(60,))
        forked.start()
        executed = subprocess.Popen(["sleep", "60"])
    try:
        with held(tmp_path) as message:
            assert message is None
    finally:
        forked.kill()
        forked.join()
        executed.kill()
        executed.wait()


def test_a_read_only_folder_is_refused(refused, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def open_read_only(path: Path, flags: int, mode: int) -> int:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(lock.os, "open", open_read_only)
    with refused(CheckpointError, tmp_path, "eval, report, export"):
        held(tmp_path).__enter__()


def test_the_copy_of_a_folder_in_use_is_free(tmp_path: Path):
    run = tmp_path / "run"
    copy = tmp_path / "copy"
    run.mkdir()
    with another_process(run):
        shutil.copytree(run, copy)
        with held(copy):
            pass


@pytest.mark.parametrize("change", ["moved", "removed", "copied in its place", "without its lock"])
def test_a_holder_notices_that_its_folder_is_another(refused, tmp_path: Path, change: str):
    run = tmp_path / "run"
    elsewhere = tmp_path / "elsewhere"
    run.mkdir()
    with held(run):
        lock.require_lock(run)
        if change == "without its lock":
            (run / lock.NAME).unlink()
        else:
            run.rename(elsewhere)
        if change == "removed":
            shutil.rmtree(elsewhere)
        if change == "copied in its place":
            shutil.copytree(elsewhere, run)
        with refused(CheckpointError, run):
            lock.require_lock(run)
    lock.require_lock(run)  # released
    if elsewhere.exists():
        with held(elsewhere):
            pass


@pytest.mark.parametrize(
    "text",
    [b"", b"process \x1b[31m1", b"process \xff", b"x" * 5000, b'{"pid": 1, "host": "h"}'],
    ids=["empty", "escapes", "no text", "long", "of an earlier version"],
)
def test_a_file_of_another_format_names_no_holder(refused, tmp_path: Path, text: bytes):
    (tmp_path / lock.NAME).write_bytes(text)
    with held(tmp_path) as message:
        assert message is None
        (tmp_path / lock.NAME).write_bytes(text)
        with refused(CheckpointError, "another process"):
            held(tmp_path).__enter__()


def test_the_lock_is_not_written_through_a_hard_link(refused, tmp_path: Path):
    run = tmp_path / "run"
    precious = tmp_path / "precious"
    run.mkdir()
    precious.write_text("of somebody else")
    os.link(precious, run / lock.NAME)
    with refused(CheckpointError, f"rm {run / lock.NAME}"):
        held(run).__enter__()
    assert precious.read_text() == "of somebody else"
    (run / lock.NAME).unlink()
    with held(run):
        pass


@pytest.mark.parametrize("kind", ["pipe", "folder", "link", "link to nothing"])
def test_a_lock_that_is_no_file_is_refused(refused, tmp_path: Path, kind: str):
    place = tmp_path / lock.NAME
    (tmp_path / "other").write_text("of somebody else")
    make: dict[str, Callable[[], None]] = {
        "pipe": lambda: os.mkfifo(place),
        "folder": place.mkdir,
        "link": lambda: place.symlink_to("other"),
        "link to nothing": lambda: place.symlink_to("gone"),
    }
    make[kind]()
    with refused(CheckpointError, f"rm {'-r ' if kind == 'folder' else ''}{place}"):
        held(tmp_path).__enter__()
    assert (tmp_path / "other").read_text() == "of somebody else"


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_file_system_without_flock_is_refused_unless_allowed(
    refused, tmp_path: Path, number: int, monkeypatch: pytest.MonkeyPatch
):
    def flock(descriptor: int, operation: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(lock.fcntl, "flock", flock)
    ways = ("runner.logger.log_path", "-o flock", "nolock", "runner.logger.require_lock=false")
    with refused(CheckpointError, os.strerror(number), *ways, text=False):
        held(tmp_path).__enter__()
    assert not any(tmp_path.iterdir())
    with lock.locked(tmp_path, required=False):
        lock.require_lock(tmp_path)
    assert not (tmp_path / lock.NAME).exists()


def test_a_holder_notices_that_another_took_over(refused, tmp_path: Path):
    with held(tmp_path):  # on a file system whose locks mean nothing to other machines
        (tmp_path / lock.NAME).write_text("process 1 on far.away since 2026-01-01 00:00:00")
        with refused(CheckpointError, tmp_path):
            lock.require_lock(tmp_path)
