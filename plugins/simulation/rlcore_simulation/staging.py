"""Our modules for another interpreter: copies in a folder of their own, which is all that is put on
its path. Nothing need be installed there but the simulator and numpy.

    packages here --copied--> CACHE/staged/DIGEST/ --PYTHONPATH--> the other interpreter

This process's own path would bring its numpy along. The folder is named by what it holds, so equal
code is copied once; a copy that was changed since is made anew. Knows no simulator.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import rlcore
from rlcore.errors import ConfigError
from rlcore.interpreters import cache_folder

CORE = (
    *("__init__", "answers", "decisions", "env_answers", "errors", "interpreters", "kernels"),
    *("libraries", "output", "protocols", "reading", "rng", "signals", "specs", "targets"),
    *("config/__init__", "config/schema"),
)
"""What a simulator process may import of rlcore: modules, and a folder of them. They need the
standard library and numpy, but for `reading`, which needs PyYAML."""
LIBRARY = "rlcore_simulation"
KEPT = 30 * 86400.0
"""Seconds for which a copy is kept that nobody uses."""

Files = dict[str, Path]  # path in the copy -> the file that it is of


def staged(packages: Iterable[str]) -> Path:
    """A folder with copies of rlcore's light modules, this library and some packages.

    Args:
        packages: names of packages or modules that this process can import.

    Raises:
        ConfigError: one of them is not found, or is no files.
    """
    files = {path: file for name in ("rlcore", LIBRARY, *packages) for path, file in _of(name)}
    content = {path: file.read_bytes() for path, file in files.items()}
    digest = _digest(content)
    folder = cache_folder("staged") / digest
    if not _holds(folder, digest):
        shutil.rmtree(folder, ignore_errors=True)
        _write(folder, content)
        _sweep(folder.parent)
    with suppress(OSError):
        os.utime(folder)
    return folder


def _of(name: str) -> Iterator[tuple[str, Path]]:
    """(path in the copy, file) of a package or module."""
    if name == "rlcore":
        root = Path(rlcore.__file__).parent
        for part in CORE:
            inside = [f"{part}/{path}" for path in _files(root / part)] or [f"{part}.py"]
            yield from ((f"rlcore/{path}", root / path) for path in inside)
        return
    with suppress(ModuleNotFoundError, ValueError):
        found = importlib.util.find_spec(name)
        if found is not None and found.submodule_search_locations:
            for place in found.submodule_search_locations:
                for path in _files(Path(place)):
                    yield f"{name}/{path}", Path(place, path)
            return
        if found is not None and found.origin and Path(found.origin).is_file():
            yield f"{name}.py", Path(found.origin)
            return
    raise ConfigError(
        f"{name!r} can't be handed to another interpreter: it is no package or module in files",
        hint="env.train.python and env.eval.python need the simulator's package as files",
    )


def _files(root: Path) -> list[str]:
    """The files below a folder but for compiled ones, in order."""
    paths = (path.relative_to(root) for path in root.rglob("*") if path.is_file())
    return sorted(path.as_posix() for path in paths if "__pycache__" not in path.parts)


def _digest(content: dict[str, bytes]) -> str:
    whole = hashlib.sha256()
    for path, data in sorted(content.items()):
        whole.update(f"{path}\0{len(data)}\0".encode())
        whole.update(data)
    return whole.hexdigest()[:32]


def _holds(folder: Path, digest: str) -> bool:
    """Whether the copy is there and whole."""
    try:
        return _digest({path: (folder / path).read_bytes() for path in _files(folder)}) == digest
    except OSError:
        return False


def _write(folder: Path, content: dict[str, bytes]) -> None:
    """Write the copy so that others see all of it or nothing."""
    making = Path(tempfile.mkdtemp(prefix=".making-", dir=folder.parent))
    for path, data in content.items():
        place = making / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
    try:
        making.rename(folder)
    except OSError:  # another process was faster
        shutil.rmtree(making, ignore_errors=True)
        if not folder.is_dir():
            raise


def _sweep(root: Path) -> None:
    """Remove copies that nobody has used for long, and what was left half written."""
    for folder in root.iterdir():
        with suppress(OSError):
            if time.time() - folder.stat().st_mtime > KEPT:
                shutil.rmtree(folder, ignore_errors=True)
