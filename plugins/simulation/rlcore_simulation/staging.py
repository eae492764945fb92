"""Copy rlcore's modules for another interpreter, into a folder on its module path.

    packages here --copied--> CACHE/staged/DIGEST/ --path--> the other interpreter

The other environment then needs only the simulator and numpy. This process's own module path can't
be used, because it would also provide this environment's numpy. The folder is named by the digest
of its contents, so that equal code is copied once; a copy that was modified is made again. Several
processes may copy at the same time. This module knows no simulator.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from importlib.machinery import ModuleSpec
from pathlib import Path

import rlcore
from rlcore.contracts.errors import AssetError, ConfigError
from rlcore_simulation.interpreters import cache_folder

CORE = (
    *("__init__", "config/__init__", "config/schema", "contracts/__init__", "contracts/decisions"),
    *("contracts/component", "contracts/errors", "contracts/protocols", "contracts/rng"),
    "contracts/specs",
    *("contracts/version", "files/__init__", "files/cpuinfo", "files/hub", "files/reading"),
    *("numerics/__init__", "numerics/mkl"),
    *("plugins/__init__", "plugins/import_target", "plugins/system_libraries"),
    *("process/__init__", "process/signals", "terminal/__init__", "terminal/stdio"),
    *("terminal/text", "validation/__init__", "validation/env", "validation/faults"),
)
"""Modules of rlcore, and a folder of modules, that a simulator process may import. They need only
the standard library and numpy, except `files/reading`, which needs PyYAML."""
LIBRARY = "rlcore_simulation"
KEPT = 30 * 86400.0
"""Seconds after its last use at which a copy is removed."""
TRIES = 3
"""Number of attempts to make a copy, in case its source files change meanwhile."""

Files = dict[str, Path]  # path in the copy -> source file


def staged(modules: Iterable[str], version: str | None = None) -> Path:
    """Return a folder with copies of rlcore's light modules, this library and some packages.

    Args:
        modules: names of packages or modules that this process can import; of a module inside a
            package, the whole package is meant.
        version: version of the other Python, e.g. "3.10.13"; None: not known, not checked.

    Raises:
        ConfigError: a package is not found, does not consist of files (e.g. is in an archive), or
            is compiled for another Python only.
        AssetError: a file can't be read, or the copies can't be written.
    """
    files: Files = {}
    for name in ("rlcore", LIBRARY, *modules):
        for path, file in _of(name):
            files.setdefault(path, file)  # in a package with several folders, the first one wins
    if version is not None:
        _require_loadable(files, version)
    root = cache_folder("staged")
    try:
        for _ in range(TRIES):
            digest = _digest(files)
            folder = root / digest
            if _holds(folder, digest) or _make(folder, files, digest):
                with suppress(OSError):
                    os.utime(folder)
                return folder
    except OSError as error:
        at = error.filename2 or error.filename or root
        raise AssetError(
            f"the simulator's code can't be copied for its interpreter to {root}: {at}: "
            f"{error.strerror}",
            hint="export XDG_CACHE_HOME=FOLDER chooses another folder for such copies"
            if Path(at).is_relative_to(root)
            else "whoever runs simulators must be able to read it",
        ) from None
    raise AssetError(
        f"the code of {', '.join(modules)} changes while it is copied to {root}",
        hint="start again once nobody writes it",
    )


def _of(name: str) -> Iterator[tuple[str, Path]]:
    """Yield (path in the copy, source file) of all files of a package or module."""
    if name == "rlcore":
        root = Path(rlcore.__file__).parent
        for part in CORE:
            inside = [f"{part}/{path}" for path in _files(root / part)] or [f"{part}.py"]
            yield from ((f"rlcore/{path}", root / path) for path in inside)
        return
    found = _whole(name)
    files = []
    if found is not None and found.submodule_search_locations is not None:
        top = found.name.replace(".", "/")
        for place in found.submodule_search_locations:
            files += [(f"{top}/{path}", Path(place, path)) for path in _files(Path(place))]
    elif found is not None and found.origin and Path(found.origin).is_file():
        files = [(Path(found.origin).name, Path(found.origin))]
    if not files:
        where = f" ({found.origin})" if found is not None and found.origin else ""
        raise ConfigError(
            f"{name!r} can't be handed to another interpreter: it is no package or module in "
            f"files{where}",
            hint="env.train.python and env.eval.python need the simulator's package as files, "
            "not in an archive, and installed where rlcore is",
        )
    yield from files


def _whole(name: str) -> ModuleSpec | None:
    """Find the outermost package with an `__init__` that contains a module.

    A folder without an `__init__` is not taken, because unrelated distributions may share it. If
    the module has no other package, the folder that directly contains it is taken.
    """
    parts = name.split(".")
    above = None
    for end in range(1, len(parts) + 1):
        try:
            found = importlib.util.find_spec(".".join(parts[:end]))
        except (ImportError, ValueError, AttributeError):
            return above
        if found is None or (found.submodule_search_locations is None and above is not None):
            return above
        above = found
        if found.origin is not None:
            break
    return above


def _files(root: Path) -> list[str]:
    """Return the sorted paths of files below a folder, except in `__pycache__`; follow links."""
    found, seen = [], set()
    for folder, inside, names in os.walk(root, followlinks=True):
        real = os.path.realpath(folder)
        if real in seen:  # a link to a folder that was visited
            inside.clear()
            continue
        seen.add(real)
        inside[:] = [name for name in inside if name != "__pycache__"]
        found += [path for name in names if (path := Path(folder, name)).is_file()]
    return sorted(path.relative_to(root).as_posix() for path in found)


def _require_loadable(files: Files, version: str) -> None:
    """Check that each compiled module is also available for this version of Python."""
    here = "".join(version.split(".")[:2])
    built: dict[str, set[str]] = {}
    for path in files:
        if (tag := re.fullmatch(r"(.+)\.cpython-(\d+)[^/.]*\.so", path)) is not None:
            built.setdefault(tag[1], set()).add(tag[2])
    for module, versions in built.items():
        others = (f"{module}{suffix}" for suffix in (".abi3.so", ".so", ".py"))
        if here not in versions and not any(path in files for path in others):
            raise ConfigError(
                f"{module} is compiled for Python {', '.join(sorted(versions))} only, and the "
                f"simulator's interpreter is Python {version}",
                hint="put what is compiled into a package of its own, installed there and named in "
                "the requirements of the ComponentSpec; what is handed on needs plain Python",
            )


def _digest(files: Files) -> str:
    """Return the digest of paths and contents. Files are read in blocks, as they may be large."""
    whole = hashlib.sha256()
    for path, file in sorted(files.items()):
        inside = hashlib.sha256()
        with file.open("rb") as stream:
            while block := stream.read(1 << 20):
                inside.update(block)
        whole.update(f"{path}\0".encode(errors="surrogateescape") + inside.digest())
    return whole.hexdigest()[:32]


def _holds(folder: Path, digest: str) -> bool:
    """Check that the copy exists and that its contents have this digest."""
    try:
        return _digest({path: folder / path for path in _files(folder)}) == digest
    except OSError:
        return False


def _make(folder: Path, files: Files, digest: str) -> bool:
    """Make the copy atomically; return False if a source file changed meanwhile."""
    making = Path(tempfile.mkdtemp(prefix=".making-", dir=folder.parent))
    try:
        for path, file in files.items():
            place = making / path
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, place)
        if not _holds(making, digest):
            return False
        if folder.exists() and not _holds(folder, digest):
            folder.rename(making.with_name(f"{making.name}-spoilt"))
        try:
            making.rename(folder)
        except OSError:  # another process was faster
            if not _holds(folder, digest):
                raise
    finally:
        for left in (making, making.with_name(f"{making.name}-spoilt")):
            shutil.rmtree(left, ignore_errors=True)
    _sweep(folder.parent)
    return True


def _sweep(root: Path) -> None:
    """Remove copies, also incomplete ones, that were not used for :data:`KEPT` seconds."""
    for folder in root.iterdir():
        with suppress(OSError):
            if time.time() - folder.stat().st_mtime > KEPT:
                shutil.rmtree(folder, ignore_errors=True)
