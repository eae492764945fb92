"""The small disk that a row fills: a file system of its own, which only root can make."""

from __future__ import annotations

import errno
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

DISK_MIB = 48


@contextmanager
def disk(folder: Path, small: bool) -> Iterator[None]:
    """A folder for one row; on a file system of its own where that can be filled."""
    folder.mkdir()
    try:
        if small:
            _root("mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m", "tmpfs", str(folder))
        yield
    finally:
        if folder.is_mount():
            _root("umount", "--lazy", str(folder))
        shutil.rmtree(folder)


def fill(run: Path) -> None:
    """Write beside a run until nothing fits any more."""
    with filler(run).open("wb", buffering=0) as file:
        for size in (1 << 20, 1 << 12, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise


def filler(run: Path) -> Path:
    """The file that takes the room."""
    return run.with_name("filler")


def _root(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"only root may fill a disk of its own: {done.stderr.strip()}")
