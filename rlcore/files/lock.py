"""Lock a run's folder, so that one process at a time writes to it. Reading takes no lock.

The lock is `flock` on `.lock`, which the system releases however a process ends. The text in the
file only names the holder, for the error of the next one. A file system without `flock` is refused,
unless `runner.logger.require_lock` is false.

Children don't inherit the lock: it is closed in a fork, and where a program is executed.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import stat
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from rlcore.contracts.errors import CheckpointError

NAME = ".lock"
_holds: dict[Path, tuple[int, bytes]] = {}
"""Folders that this process holds: the open file, and the text that was written to it."""


@contextlib.contextmanager
def held(folder: Path, *, required: bool) -> Iterator[str | None]:
    """Hold the lock of a folder; yields a message where a process that is gone had it, else None.

    Args:
        required: refuse a file system without `flock`.

    Raises:
        CheckpointError: another process holds it, or the folder can't be written to or locked.
    """
    with _named(folder):
        descriptor = _locked(folder / NAME, required)
    before = _holder(descriptor)
    since = datetime.now().isoformat(" ", timespec="seconds")
    text = f"process {os.getpid()} on {socket.gethostname()} since {since}".encode()
    _holds[folder] = descriptor, text
    try:
        with _named(folder):
            os.pwrite(descriptor, text, 0)
            os.ftruncate(descriptor, len(text))
        yield None if before is None else f"was held by {before}, which is gone"
    finally:
        if _holds.pop(folder, None):  # not in a fork
            with contextlib.suppress(OSError):
                if _keeps(folder, descriptor, text):
                    (folder / NAME).unlink()
            os.close(descriptor)


def require_held(folder: Path) -> None:
    """Before writing again: check that a folder's path still leads to the folder that is held.

    Raises:
        CheckpointError: it was moved, removed or replaced meanwhile, or another process has its
            lock. Never where this process did not take the lock.
    """
    if folder in _holds and not _keeps(folder, *_holds[folder]):
        raise CheckpointError(
            f"{folder} is not the folder that was written to so far: it, or the file {NAME} in it, "
            "was moved, removed or replaced during the run",
            hint=f"what was written so far is where it was moved to; resume it there: "
            f"rlcore resume {folder if folder.exists() else 'RUN'}",
        )


def _keeps(folder: Path, descriptor: int, text: bytes) -> bool:
    """Whether the lock in a folder is still the one that was taken."""
    try:
        same = os.path.samestat(os.fstat(descriptor), os.stat(folder / NAME, follow_symlinks=False))
        return same and os.pread(descriptor, len(text) + 1, 0) == text
    except OSError:
        return False


@contextlib.contextmanager
def _named(folder: Path) -> Iterator[None]:
    """Convert errors of the file system into one error."""
    try:
        yield
    except OSError as error:
        raise CheckpointError(
            f"can't write to {folder}: {error.strerror or error}",
            hint="commands that read (eval, report, export) work on it; to go on with the run, "
            "copy it to a folder you may write to",
        ) from error


def _forget() -> None:
    for descriptor, _ in _holds.values():
        os.close(descriptor)
    _holds.clear()


os.register_at_fork(after_in_child=_forget)


def _locked(path: Path, required: bool) -> int:
    """The open file, locked. Its last holder removes it, so it may be another file by the time it
    is locked: then try again."""
    while True:
        with contextlib.suppress(FileNotFoundError):
            there = os.lstat(path)
            if there.st_nlink > 1 or not stat.S_ISREG(there.st_mode):
                raise CheckpointError(
                    f"{path} is a link or no file: nothing is written through it",
                    hint=f"rm {'-r ' if stat.S_ISDIR(there.st_mode) else ''}{path}",
                )
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(path, flags, 0o644)
        try:
            _lock(path, descriptor, required)
            if os.path.samestat(os.fstat(descriptor), os.lstat(path)):
                return descriptor
        except FileNotFoundError:
            pass
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _lock(path: Path, descriptor: int, required: bool) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise CheckpointError(
            f"{path.parent} is in use by {_holder(descriptor) or 'another process'}: two runs "
            "can't write to one folder",
            hint="wait for it or stop it, then do this again",
        ) from None
    except OSError as error:
        if required:
            if not os.fstat(descriptor).st_size:
                path.unlink()  # it was made here
            raise CheckpointError(
                f"the file system of {path.parent} has no locks (flock: {error.strerror}), so "
                "nothing would keep two commands from writing to one run",
                hint="set runner.logger.log_path to another disk; or have it mounted with locks "
                "(Lustre: -o flock; NFS: without nolock); or see to it yourself that one command "
                "at a time writes to a run, and set runner.logger.require_lock=false",
            ) from None


def _holder(descriptor: int) -> str | None:
    """The holder that the file names; None if it names nobody, or was not written by rlcore."""
    try:
        text = os.pread(descriptor, 400, 0).decode()
    except (OSError, ValueError):
        return None
    return text if text.startswith("process ") and text.isprintable() else None
