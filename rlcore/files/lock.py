"""Lock a run folder, so that one process at a time writes to it. Readers take no lock.

The lock is `flock` on the file `.lock`. The operating system releases it when the process ends, for
whatever reason. The file's text names the holder, for the error message of another process. A file
system without `flock` is an error, unless `runner.logger.require_lock` is false.

Child processes don't inherit the lock: its file is closed after a fork and on exec.
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
"""File descriptor and text of each lock that this process holds, by folder."""


@contextlib.contextmanager
def locked(folder: Path, *, required: bool) -> Iterator[str | None]:
    """Hold the lock of a folder within this context.

    Args:
        required: raise an error on a file system without `flock`.

    Yields:
        message about the previous holder, if it ended without removing the lock file; else None.

    Raises:
        CheckpointError: another process holds the lock, or the folder can't be written or locked.
    """
    with _file_system_errors(folder):
        descriptor = _open_locked(folder / NAME, required)
    former_holder = _holder(descriptor)
    since = datetime.now().isoformat(" ", timespec="seconds")
    text = f"process {os.getpid()} on {socket.gethostname()} since {since}".encode()
    _holds[folder] = descriptor, text
    try:
        with _file_system_errors(folder):
            os.pwrite(descriptor, text, 0)
            os.ftruncate(descriptor, len(text))
        yield None if former_holder is None else f"was held by {former_holder}, which is gone"
    finally:
        if _holds.pop(folder, None):  # None in a forked child, which does not hold the lock
            with contextlib.suppress(OSError):
                if _still_holds(folder, descriptor, text):
                    (folder / NAME).unlink()
            os.close(descriptor)


def require_lock(folder: Path) -> None:
    """Check, before writing, that a path still refers to the folder whose lock this process holds.

    Without a lock of this process nothing is checked.

    Raises:
        CheckpointError: the folder or its lock file was moved, removed or replaced since the lock
            was taken.
    """
    if folder in _holds and not _still_holds(folder, *_holds[folder]):
        raise CheckpointError(
            f"{folder} is not the folder that was written to so far: it, or the file {NAME} in it, "
            "was moved, removed or replaced during the run",
            hint=f"what was written so far is where it was moved to; resume it there: "
            f"rlcore resume {folder if folder.exists() else 'RUN'}",
        )


def _still_holds(folder: Path, descriptor: int, text: bytes) -> bool:
    """Check whether the lock file in a folder is the open one and contains the text."""
    try:
        same = os.path.samestat(os.fstat(descriptor), os.stat(folder / NAME, follow_symlinks=False))
        return same and os.pread(descriptor, len(text) + 1, 0) == text
    except OSError:
        return False


@contextlib.contextmanager
def _file_system_errors(folder: Path) -> Iterator[None]:
    """Convert OSError into a CheckpointError that names the folder."""
    try:
        yield
    except OSError as error:
        raise CheckpointError(
            f"can't write to {folder}: {error.strerror or error}",
            hint="commands that read (eval, report, export) work on it; to go on with the run, "
            "copy it to a folder you may write to",
        ) from error


def _release_in_child() -> None:
    """Close the inherited lock files after a fork; the parent still holds the locks."""
    for descriptor, _ in _holds.values():
        os.close(descriptor)
    _holds.clear()


os.register_at_fork(after_in_child=_release_in_child)


def _open_locked(path: Path, required: bool) -> int:
    """Open the lock file, lock it and return its descriptor.

    The previous holder removes the file when it ends. If the path refers to another file after
    locking, open it again.
    """
    while True:
        with contextlib.suppress(FileNotFoundError):
            status = os.lstat(path)
            if status.st_nlink > 1 or not stat.S_ISREG(status.st_mode):
                raise CheckpointError(
                    f"{path} is a link or no file: nothing is written through it",
                    hint=f"rm {'-r ' if stat.S_ISDIR(status.st_mode) else ''}{path}",
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
    """Lock an open file. Without `flock`, do nothing unless the lock is required."""
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
                path.unlink()  # an empty file is the one that this process created
            raise CheckpointError(
                f"the file system of {path.parent} has no locks (flock: {error.strerror}), so "
                "nothing would keep two commands from writing to one run",
                hint="set runner.logger.log_path to another disk; or have it mounted with locks "
                "(Lustre: -o flock; NFS: without nolock); or see to it yourself that one command "
                "at a time writes to a run, and set runner.logger.require_lock=false",
            ) from None


def _holder(descriptor: int) -> str | None:
    """Return the holder that the lock file names; None if its text is not one of rlcore's."""
    try:
        text = os.pread(descriptor, 400, 0).decode()
    except (OSError, ValueError):
        return None
    return text if text.startswith("process ") and text.isprintable() else None
