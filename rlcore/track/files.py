"""Files that are either whole or not there, whatever moment a run is killed at.

Everything is written under a hidden temporary name beside its target, flushed to the disk and
renamed. Knows nothing of what is written.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path to write to; it takes the place of `path` if all went well.

    The suffix is kept, as writers choose formats by it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".partial-{os.getpid()}-{path.name}")
    try:
        yield partial
        _sync(partial)
        partial.replace(path)
        _sync(path.parent)
    finally:
        partial.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text atomically."""
    with replacing(path) as partial:
        partial.write_text(text, encoding="utf-8")


@contextmanager
def replacing_folder(path: Path) -> Iterator[Path]:
    """Like :func:`replacing` for a folder: yields an empty one, an older `path` is superseded.

    One process writes to `path` at a time; what a killed one left is removed.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    for stale in path.parent.glob(f".partial-*-{path.name}"):
        shutil.rmtree(stale)
    partial = path.with_name(f".partial-{os.getpid()}-{path.name}")
    old = path.with_name(f".old-{os.getpid()}-{path.name}")
    partial.mkdir()
    try:
        yield partial
        for file in partial.rglob("*"):
            _sync(file)
        _sync(partial)
        if path.exists():  # a folder can't be renamed onto one that holds files
            path.rename(old)
        partial.rename(path)
        _sync(path.parent)
        shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _sync(path: Path) -> None:
    """Flush a file, or the list of names in a folder, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
