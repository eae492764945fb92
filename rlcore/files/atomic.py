"""Write files and folders atomically: they are complete or absent, whenever a run is killed.

Files and folders are written under a hidden temporary name in the folder of their target, flushed
to the disk and renamed.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

PARTIAL = ".partial-"
"""Prefix of the names of unfinished files and folders."""


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Yield a temporary path to write to; rename it to `path` if the block raises nothing.

    The temporary path has the suffix of `path`, because some writers choose the format by it.

    Raises:
        FileExistsError: `path` exists and is not a regular file, such as /dev/stdout.
        OSError: writing failed; the error names the file.
    """
    make_folder(path.parent)
    if path.exists() and not path.is_file():
        raise FileExistsError(errno.EEXIST, "it exists already, and is not a file", str(path))
    partial = _partial(path)
    if os.path.lexists(partial):  # left by an earlier process with the same pid, or a link
        partial.unlink()
    try:
        yield partial
        sync(partial)
        partial.replace(path)
        sync(path.parent)
    except OSError as error:  # errors of writes to an open file don't name it
        if error.filename is None:
            error.filename = str(path)
        raise
    finally:
        partial.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text atomically."""
    with atomic_write(path) as partial:
        partial.write_text(text, encoding="utf-8")


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Yield an empty temporary folder; rename it to `path` if the block raises nothing.

    An existing folder is not replaced: that needs two renames, and a kill between them would leave
    neither folder. If two processes write to `path` at once, the first to finish succeeds.
    Unfinished folders that killed processes left are removed.

    Raises:
        FileExistsError: `path` exists and is not an empty folder.
    """
    make_folder(path.parent)
    for stale in path.parent.glob(f"{PARTIAL}*-{path.name}"):
        if not _writer_ended(stale.name):
            continue
        if stale.is_dir() and not stale.is_symlink():
            shutil.rmtree(stale)
        else:
            stale.unlink()
    partial = _partial(path)
    partial.mkdir()
    try:
        yield partial
        for file in partial.rglob("*"):
            sync(file)
        sync(partial)
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise FileExistsError(errno.EEXIST, "it exists already", str(path))
        partial.rename(path)
        sync(path.parent)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


@contextmanager
def scratch_folder(parent: Path) -> Iterator[Path]:
    """Yield an empty folder in `parent`, which is removed with its content afterwards.

    The folder has the name of an unfinished one, so :func:`sweep` removes it after a kill.
    """
    make_folder(parent)
    folder = _partial(parent / "scratch")
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def move(path: Path, into: Path) -> Path:
    """Move a file or folder into another folder; append `-2`, `-3`, ... if the name exists there.

    Returns:
        the new path.
    """
    make_folder(into)
    for number in count(1):
        target = into / (path.name if number == 1 else f"{path.name}-{number}")
        if not os.path.lexists(target):
            break
    path.rename(target)
    sync(into)
    sync(path.parent)
    return target


def remove_folder(path: Path) -> None:
    """Remove a folder that may be missing: after a kill it is there, complete, or it is not."""
    hidden = path.with_name(f"{PARTIAL}{path.name}")  # if killed now, the next start sweeps it away
    if path.is_dir():
        path.rename(hidden)
        shutil.rmtree(hidden)


def sweep(folder: Path, spare: tuple[str, ...] = ()) -> None:
    """Remove all unfinished files and folders below a folder.

    Args:
        folder: no other process may write below it, except to the names in `spare`.
        spare: names to which other processes may write. Folders with these names are skipped.
            Unfinished files with these names are removed only if no process has their writer's pid.
    """
    for walked, folders, files in os.walk(folder):
        parent = Path(walked)
        for name in files:
            if is_partial(name) and (not name.endswith(spare) or _writer_ended(name)):
                (parent / name).unlink(missing_ok=True)
        for name in folders:
            if is_partial(name):
                shutil.rmtree(parent / name, ignore_errors=True)
        folders[:] = [name for name in folders if name not in spare and not is_partial(name)]


def is_partial(name: str) -> bool:
    """Check whether a name is that of an unfinished file or folder."""
    return name.startswith(PARTIAL)


def make_folder(path: Path) -> None:
    """Create a folder and its missing parents, and flush their names to the disk."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for folder in reversed(missing):
        sync(folder.parent)


def sync(path: Path) -> None:
    """Flush a file, or the list of names in a folder, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _writer_ended(partial: str) -> bool:
    """Check whether this machine has no process with the pid in the name of an unfinished file.

    Processes of other machines can't be checked. If one is still writing, it gets an error and must
    write the file again.
    """
    import psutil  # imported here, because unfinished files are rare

    pid = partial.removeprefix(PARTIAL).partition("-")[0]
    return pid.isdecimal() and not psutil.pid_exists(int(pid))


def _partial(path: Path) -> Path:
    return path.with_name(f"{PARTIAL}{os.getpid()}-{path.name}")
