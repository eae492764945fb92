"""One writer to a folder: dead ones let go, living ones don't, on this machine and on others."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from rlcore.errors import CheckpointError
from rlcore.track import lock

HOLD = """
import sys, time
from pathlib import Path
from rlcore.track import lock
with lock.held(Path(sys.argv[1])):
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


def write(folder: Path, **changes: object) -> None:
    """A lock that nobody has by `flock`, as a holder elsewhere leaves one."""
    facts = {
        "host": "far.away",
        "boot": "other",
        "pid": 1,
        "pids": "",
        "began": 1.0,
        "since": time.time() - 100,
        "beat": time.time(),
        "token": "t",
    }
    (folder / lock.NAME).touch()
    facts["file"] = (folder / lock.NAME).stat().st_ino
    (folder / lock.NAME).write_text(json.dumps({**facts, **changes}))


def here(**changes: object) -> dict[str, object]:
    mine = lock._myself()
    return {"host": mine.host, "boot": mine.boot, "pids": mine.pids, **changes}


def test_nothing_is_left_of_it(tmp_path):
    with lock.held(tmp_path) as said:
        assert said is None
        assert json.loads((tmp_path / lock.NAME).read_text())["pid"] == os.getpid()
    assert not any(tmp_path.iterdir())


def test_a_living_one_keeps_it_and_is_named_and_a_killed_one_does_not(tmp_path):
    with another_process(tmp_path) as process:
        with (
            pytest.raises(CheckpointError, match=f"in use by process {process.pid} on ") as error,
            lock.held(tmp_path),
        ):
            pass
        assert "wait for it or stop it" in error.value.hint
        process.kill()
        process.wait()
        with lock.held(tmp_path) as said:
            assert said.startswith(f"was held by process {process.pid} on ")


def test_of_two_in_one_process_one_gets_it(tmp_path):
    with lock.held(tmp_path), pytest.raises(CheckpointError, match="in use"), lock.held(tmp_path):
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
    with lock.held(tmp_path):
        forked = context.Process(target=time.sleep, args=(60,))
        forked.start()
        executed = subprocess.Popen(["sleep", "60"])
    try:
        with lock.held(tmp_path) as said:
            assert said is None
    finally:
        forked.kill()
        forked.join()
        executed.kill()
        executed.wait()


def test_a_beating_heart_elsewhere_is_not_taken_over(tmp_path):
    write(tmp_path)
    with pytest.raises(CheckpointError, match=r"process 1 on far\.away since") as error:
        lock.held(tmp_path).__enter__()
    assert "30 seconds after its last sign of life" in error.value.hint
    # our clocks differ by an hour, but it beats
    write(tmp_path, beat=time.time() - 3600)
    with pytest.MonkeyPatch.context() as patch:
        held = lock.held(tmp_path, watch=60.0)
        patch.setattr(lock, "time", _BeatsWhileWeSleep(tmp_path))
        with pytest.raises(CheckpointError, match="in use by process 1"):
            held.__enter__()


class _BeatsWhileWeSleep:
    """`time`, in which the holder beats whenever we sleep."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    time, monotonic = staticmethod(time.time), staticmethod(time.monotonic)

    def sleep(self, seconds: float) -> None:
        write(self._folder, beat=time.time() - 3000)


@pytest.mark.parametrize("beat", [-3600, 3600])
def test_a_heart_elsewhere_that_has_stopped_is_taken_over(tmp_path, beat):
    write(tmp_path, beat=time.time() + beat)
    with lock.held(tmp_path, watch=0.0) as said:
        assert said.startswith("was held by process 1 on far.away since")


def test_on_this_machine_the_process_counts(tmp_path):
    me = psutil.Process()
    write(tmp_path, **here(pid=me.pid, began=me.create_time()))  # where flock means nothing
    with pytest.raises(CheckpointError, match=f"in use by process {me.pid}"):
        lock.held(tmp_path).__enter__()
    write(tmp_path, **here(pid=me.pid, began=me.create_time() - 1000))  # a pid used again
    with lock.held(tmp_path) as said:
        assert said is not None


@pytest.mark.skipif("not Path('/proc/sys/kernel/random/boot_id').exists()")
def test_a_container_that_is_gone_is_known_by_flock(tmp_path):
    write(tmp_path, **here(host="container-1", pids="pid:[1]"))
    with lock.held(tmp_path) as said:
        assert said is not None


@pytest.mark.parametrize("missing", ["module", "call"])
def test_without_flock_the_heartbeat_alone(tmp_path, missing, monkeypatch):
    def refused(*arguments: object) -> None:
        raise OSError("no locks on this file system")

    if missing == "module":
        monkeypatch.setattr(lock, "fcntl", None)
    else:
        monkeypatch.setattr(lock.fcntl, "flock", refused)
    monkeypatch.setattr(lock, "SETTLE", 0.0)
    with lock.held(tmp_path), pytest.raises(CheckpointError, match="in use by process"):
        lock.held(tmp_path).__enter__()
    assert not any(tmp_path.iterdir())


def test_it_beats(tmp_path, monkeypatch):
    monkeypatch.setattr(lock, "BEAT", 0.01)
    with lock.held(tmp_path):
        first = (tmp_path / lock.NAME).read_text()
        deadline = time.monotonic() + 10
        while (tmp_path / lock.NAME).read_text() == first and time.monotonic() < deadline:
            time.sleep(0.01)
        assert (tmp_path / lock.NAME).read_text() != first


def test_a_damaged_one_counts_as_none(tmp_path):
    write(tmp_path)
    whole = (tmp_path / lock.NAME).read_text()
    texts = ["", "{", "null", "[1]", '{"pid": "x"}', "[" * 4000]
    for before, after in (
        ('"pid": 1', '"pid": Infinity'),
        ('"pid": 1', '"pid": -5'),
        ('"began": 1.0', f'"began": 1{"0" * 400}'),
        ('"began": 1.0', '"began": NaN'),
        ('"since": ', '"since": 1e300, "was": '),
        ('"host": "far.away"', '"host": [1]'),
    ):
        assert before in whole
        texts.append(whole.replace(before, after))
    for text in texts:
        (tmp_path / lock.NAME).write_text(text)
        with lock.held(tmp_path) as said:
            assert said is None


def test_what_cannot_be_written_to_is_named(tmp_path):
    (tmp_path / lock.NAME).mkdir()
    with pytest.raises(CheckpointError, match="can't write to") as error:
        lock.held(tmp_path).__enter__()
    assert "eval, report, export" in error.value.hint
    (tmp_path / lock.NAME).rmdir()
    (tmp_path / lock.NAME).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(CheckpointError, match="can't write to"):
        lock.held(tmp_path).__enter__()
    assert not (tmp_path / "elsewhere").exists()


def test_the_copy_of_a_folder_in_use_is_free(tmp_path: Path):
    run, copy = tmp_path / "run", tmp_path / "copy"
    run.mkdir()
    with another_process(run):
        shutil.copytree(run, copy)
        with lock.held(copy):
            pass


@pytest.mark.parametrize(
    "changes",
    [{"pid": -1}, {"pid": 10**30}, {"since": 1e300}, {"since": "Infinity"}, {"beat": "NaN"}],
    ids=str,
)
def test_no_holder_can_be_what_the_file_says(tmp_path: Path, changes: dict[str, object]):
    write(tmp_path, **here(**changes))
    with lock.held(tmp_path, watch=0.0):
        pass


def test_a_lock_that_unfolds_without_end_is_nobodys(tmp_path: Path):
    (tmp_path / lock.NAME).write_text("[" * 4096)
    with lock.held(tmp_path):
        pass


@pytest.mark.parametrize("struck", ["moved", "removed", "copied in its place", "without its lock"])
def test_a_holder_notices_that_its_folder_is_another(tmp_path: Path, struck: str):
    run, elsewhere = tmp_path / "run", tmp_path / "elsewhere"
    run.mkdir()
    with lock.held(run):
        lock.require_held(run)
        if struck == "without its lock":
            (run / lock.NAME).unlink()
        else:
            run.rename(elsewhere)
        if struck == "removed":
            shutil.rmtree(elsewhere)
        if struck == "copied in its place":
            shutil.copytree(elsewhere, run)
        with pytest.raises(CheckpointError, match="moved, removed or replaced"):
            lock.require_held(run)
    lock.require_held(run)  # nobody's now
    if elsewhere.exists():
        with lock.held(elsewhere):
            pass


def test_a_holder_notices_that_another_took_over(tmp_path: Path):
    with lock.held(tmp_path):
        write(tmp_path)  # on a file system where `flock` means nothing, while this one was stopped
        with pytest.raises(CheckpointError):
            lock.require_held(tmp_path)
