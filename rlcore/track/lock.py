"""One writer at a time: whoever writes to the folder of a run that is already there holds its lock.

The lock is `flock` on `.lock`, which the system takes back from a process however it ends. Not all
file systems keep it, between machines above all, so the file also says who holds it, and is
written again every few seconds: a heartbeat that others can see. A holder counts as gone if

* it was a process of this machine that has ended (pids are used again, so the time it began
  counts too; of one in another container, whose pids we don't see, `flock` knows), or
* it was on another machine, and its heart has stopped: its last beat is long ago by our clock, and
  while we watch none comes. Both, as clocks may differ.

Children don't keep the lock: it is closed where a program is executed, and in a fork. Knows nothing
of what a run is. Reading takes no lock.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from math import isfinite
from pathlib import Path

import psutil

from rlcore.errors import CheckpointError
from rlcore.reading import parse_json

try:
    import fcntl
except ImportError:  # not on this system: the heartbeat alone
    fcntl = None  # type: ignore[assignment]

NAME = ".lock"
BEAT = 5.0
"""Seconds between two beats."""
FRESH = 6 * BEAT
"""Seconds since the last beat, by our clock, within which a holder elsewhere is taken to live."""
WATCH = 2.5 * BEAT
"""Seconds to watch whether a heart that seems to have stopped beats after all."""
SAME_PROCESS = 5.0
"""Seconds by which the beginning of one process may seem to differ, as clocks are set right."""
SETTLE = 0.5
"""Seconds after which of two that took a lock without `flock` at once one knows that it lost."""


@dataclass(frozen=True)
class Holder:
    """Who holds a lock, as the file says.

    Attributes:
        host: its name.
        boot: which boot of which machine it belongs to; "" where the system does not say.
        pid: of the process.
        pids: in which of the machine's namespaces of pids; likewise.
        began: when the process began, in seconds since the epoch.
        since: when it took the lock, likewise.
        beat: when it last said so, likewise.
        token: of this very hold.
        file: number of the lock's file on its disk: a copy has another.
    """

    host: str
    boot: str
    pid: int
    pids: str
    began: float
    since: float
    beat: float
    token: str
    file: int

    def __str__(self) -> str:
        since = datetime.fromtimestamp(self.since).isoformat(" ", timespec="seconds")
        return f"process {self.pid} on {self.host} since {since}"


@contextlib.contextmanager
def held(folder: Path, *, watch: float = WATCH) -> Iterator[str | None]:
    """Hold the lock of a folder; yields a word to the user where it was taken over, else None.

    Raises:
        CheckpointError: another process holds it, or the folder can't be written to.
    """
    with _named(folder):
        descriptor, kept = _open(folder / NAME)
    mine = replace(_myself(), file=os.fstat(descriptor).st_ino)
    with _closing(descriptor):
        before = _read(descriptor)
        if before is not None:
            _require_gone(folder, before, descriptor, kept, watch)
        with _named(folder):
            _write(descriptor, mine)
        if not kept:
            time.sleep(SETTLE)
            winner = _read(descriptor)
            if winner is None or winner.token != mine.token:
                raise _in_use(folder, winner)
        try:
            with _beating(descriptor, mine):
                _holds[folder] = descriptor, mine.token
                yield f"was held by {before}, which is gone" if before is not None else None
        finally:
            if os.getpid() == mine.pid:
                _holds.pop(folder, None)
                with contextlib.suppress(OSError):
                    if _keeps(folder, descriptor, mine.token):
                        (folder / NAME).unlink()
                    elif (there := _read(descriptor)) and there.token == mine.token:
                        os.ftruncate(descriptor, 0)  # it was moved: nobody's, wherever it is


_holds: dict[Path, tuple[int, str]] = {}
"""Folders that are held here: the open file and the token of the hold."""


def require_held(folder: Path) -> None:
    """For whoever holds a folder and is going to write to it again: its name still leads to it.

    Raises:
        CheckpointError: it was moved, removed or replaced meanwhile, or another has its lock.
            Nothing where this process never took the lock.
    """
    if folder in _holds and not _keeps(folder, *_holds[folder]):
        raise CheckpointError(
            f"{folder} is not the folder that was written to so far: it, or the file {NAME} in it, "
            "was moved, removed or replaced during the run",
            hint=f"what was written so far is where it was moved to; resume it there: "
            f"rlcore resume {folder if folder.exists() else 'RUN'}",
        )


def _keeps(folder: Path, descriptor: int, token: str) -> bool:
    """Whether the lock in a folder is still the one that was taken."""
    try:
        same = os.path.samestat(os.fstat(descriptor), os.stat(folder / NAME, follow_symlinks=False))
    except OSError:
        return False
    holder = _read(descriptor)
    return same and (holder is None or holder.token == token)


@contextlib.contextmanager
def _named(folder: Path) -> Iterator[None]:
    """What the file system refuses, as one clear error."""
    try:
        yield
    except OSError as error:
        raise CheckpointError(
            f"can't write to {folder}: {error.strerror or error}",
            hint="commands that read (eval, report, export) work on it; to go on with the run, "
            "copy it to a folder you may write to",
        ) from error


@contextlib.contextmanager
def _closing(descriptor: int) -> Iterator[None]:
    _descriptors.add(descriptor)
    try:
        yield
    finally:
        if descriptor in _descriptors:  # in a fork it is closed already
            _descriptors.remove(descriptor)
            os.close(descriptor)


_descriptors: set[int] = set()


def _close_in_child() -> None:
    for descriptor in _descriptors:
        os.close(descriptor)
    _descriptors.clear()


os.register_at_fork(after_in_child=_close_in_child)


def _open(path: Path) -> tuple[int, bool]:
    """The file, and whether it is locked: not every file system can. It is removed by whoever lets
    go of it, so it may be another by the time it is locked.

    Raises:
        CheckpointError: it is locked by another.
    """
    while True:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(path, flags, 0o644)
        try:
            kept = _lock(descriptor)
            if kept is False:
                raise _in_use(path.parent, _read(descriptor))
            if os.path.samestat(os.fstat(descriptor), os.stat(path, follow_symlinks=False)):
                return descriptor, kept is True
        except FileNotFoundError:
            pass
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _lock(descriptor: int) -> bool | None:
    """Whether it is ours alone; None where the file system keeps no locks."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _require_gone(folder: Path, holder: Holder, descriptor: int, kept: bool, watch: float) -> None:
    """Raise CheckpointError where a holder lives although `flock` gave us its lock."""
    here = _myself()
    if (holder.host, holder.boot, holder.pids) == (here.host, here.boot, here.pids):
        copied = kept and holder.file != os.fstat(descriptor).st_ino
        if _runs(holder) and not copied:
            raise _in_use(folder, holder)
        return
    if kept and holder.boot and holder.boot == here.boot:
        return  # one kernel keeps the locks of all its containers
    if abs(time.time() - holder.beat) < FRESH:
        raise _in_use(folder, holder)
    until = time.monotonic() + watch
    while time.monotonic() < until:
        time.sleep(min(0.2, watch))
        now = _read(descriptor)
        if now is not None and (now.token, now.beat) != (holder.token, holder.beat):
            raise _in_use(folder, now)


def _runs(holder: Holder) -> bool:
    """Whether a process of this machine is still there, and not another of its number."""
    try:
        return abs(psutil.Process(holder.pid).create_time() - holder.began) < SAME_PROCESS
    except (psutil.Error, ValueError):  # no number of a process
        return False


def _in_use(folder: Path, holder: Holder | None) -> CheckpointError:
    by = "another process" if holder is None else str(holder)
    return CheckpointError(
        f"{folder} is in use by {by}: two runs can't write to one folder",
        hint="wait for it or stop it, then do this again"
        + (
            f"; if it is gone, its lock is free {FRESH:.0f} seconds after its last sign of life"
            if holder is not None and holder.host != socket.gethostname()
            else ""
        ),
    )


@contextlib.contextmanager
def _beating(descriptor: int, mine: Holder) -> Iterator[None]:
    """Say again and again that we live, from a thread of its own."""
    over = threading.Event()

    def beat() -> None:
        while not over.wait(BEAT):
            with contextlib.suppress(OSError):
                there = _read(descriptor)
                if there is None or there.token == mine.token:
                    _write(descriptor, mine)

    thread = threading.Thread(target=beat, name="lock", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _myself() -> Holder:
    now = time.time()
    return Holder(
        host=socket.gethostname(),
        boot=_boot(),
        pid=os.getpid(),
        pids=_pids(),
        began=psutil.Process().create_time(),
        since=now,
        beat=now,
        token=uuid.uuid4().hex,
        file=0,
    )


def _boot() -> str:
    with contextlib.suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
    return ""


def _pids() -> str:
    with contextlib.suppress(OSError):
        return os.readlink("/proc/self/ns/pid")
    return ""


def _read(descriptor: int) -> Holder | None:
    """Who is in the file; None where nobody is, or where it was cut off in writing."""
    try:
        facts = parse_json(os.pread(descriptor, 4096, 0).decode("utf-8"))
        facts = {**facts, "pid": int(facts["pid"]), "file": int(facts["file"])}
        for name in ("began", "since", "beat"):
            facts[name] = float(facts[name])
        holder = Holder(**facts)
        str(holder)  # which fails for a time of no calendar
    except (OSError, ValueError, TypeError, KeyError, OverflowError):
        return None
    texts = (holder.host, holder.boot, holder.pids, holder.token)
    known = holder.pid > 0 and isfinite(holder.began) and isfinite(holder.beat)
    return holder if known and all(isinstance(text, str) for text in texts) else None


def _write(descriptor: int, holder: Holder) -> None:
    text = json.dumps({**asdict(holder), "beat": time.time()}).encode()
    os.pwrite(descriptor, text, 0)
    os.ftruncate(descriptor, len(text))
    os.fsync(descriptor)
