"""Write files and folders atomically: whole or absent, whenever a run is killed.

Everything is written under a hidden temporary name beside its target, flushed to the disk and
renamed. Knows nothing of what is written.
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
"""What the names of unfinished files and folders begin with."""


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path to write to; it takes the place of `path` if all went well.

    The suffix is kept, as writers choose formats by it.

    Raises:
        FileExistsError: something else than a file is there, such as /dev/stdout.
    """
    make_folder(path.parent)
    if path.exists() and not path.is_file():
        raise FileExistsError(errno.EEXIST, "it exists already, and is not a file", str(path))
    partial = _partial(path)
    if os.path.lexists(partial):  # of an earlier process of this number, or a link
        partial.unlink()
    try:
        yield partial
        sync(partial)
        partial.replace(path)
        sync(path.parent)
    except OSError as error:  # errors of an open file don't say which
        if error.filename is None:
            error.filename = str(path)
        raise
    finally:
        partial.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text atomically."""
    with replacing(path) as partial:
        partial.write_text(text, encoding="utf-8")


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Yield an empty folder, which becomes `path` as in :func:`replacing`.

    Nothing is ever replaced: that would take two renames, and a kill between them would leave
    neither. Of two that write to `path` at once, the first to end has it. What a killed one left
    is removed.

    Raises:
        FileExistsError: `path` is taken, by anything but an empty folder.
    """
    make_folder(path.parent)
    for stale in path.parent.glob(f"{PARTIAL}*-{path.name}"):
        if not _given_up(stale.name):
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
    """Yield an empty folder in `parent` that is removed with all that is in it. What a killed
    process left is unfinished by its name, and goes with :func:`sweep`."""
    make_folder(parent)
    folder = _partial(parent / "scratch")
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def move(path: Path, into: Path) -> Path:
    """Rename a file or folder into another folder; `-2`, `-3`, ... is added to a taken name.

    Returns:
        Where it is now.
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


def sweep(folder: Path, spare: tuple[str, ...] = ()) -> None:
    """Remove all unfinished files and folders below a folder.

    Args:
        folder: nobody else may be writing there.
        spare: names that are not looked into, or whose unfinished files stay as long as there is
            a process with the number of their writer: others write them.
    """
    for place, folders, files in os.walk(folder):
        inside = Path(place)
        for name in files:
            if is_partial(name) and (not name.endswith(spare) or _given_up(name)):
                (inside / name).unlink(missing_ok=True)
        for name in folders:
            if is_partial(name):
                shutil.rmtree(inside / name, ignore_errors=True)
        folders[:] = [name for name in folders if name not in spare and not is_partial(name)]


def is_partial(name: str) -> bool:
    """Check whether a file or folder of that name was never finished."""
    return name.startswith(PARTIAL)


def make_folder(path: Path) -> None:
    """Make a folder and those above it; their names are flushed to the disk too."""
    missing = [place for place in (path, *path.parents) if not place.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for place in reversed(missing):
        sync(place.parent)


def sync(path: Path) -> None:
    """Flush a file, or the list of names in a folder, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _given_up(partial: str) -> bool:
    """Return whether the process that wrote an unfinished file is gone, as far as can be told here:
    one of another machine that writes at this moment gets an error, and tries again."""
    import psutil  # only where something was left

    number = partial.removeprefix(PARTIAL).partition("-")[0]
    return number.isdecimal() and not psutil.pid_exists(int(number))


def _partial(path: Path) -> Path:
    return path.with_name(f"{PARTIAL}{os.getpid()}-{path.name}")
