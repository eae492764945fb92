"""Let another interpreter import packages of this one, through a folder of links on its path.

The other environment then needs only the simulator and numpy. This process's own module path can't
be used, because it would also provide this environment's numpy. This module knows no simulator.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from contextlib import suppress
from importlib.machinery import ModuleSpec
from itertools import accumulate
from pathlib import Path

from rlcore.contracts.errors import ConfigError

LIBRARY = "rlcore_simulation"
SHARED = ("rlcore", LIBRARY)
"""Packages that every simulator process imports. What it imports of them needs only the standard
library and numpy."""


def link_modules(folder: Path, modules: Iterable[str]) -> None:
    """Link rlcore, this library and other packages into a folder for the path of modules.

    Args:
        folder: an empty folder.
        modules: names of packages or modules that this process can import; of a module inside a
            package, the whole package is linked.

    Raises:
        ConfigError: a package is not found, or does not consist of files (e.g. is in an archive).
    """
    for name in (*SHARED, *modules):
        for path, source in _sources(name):
            link = folder / path
            link.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileExistsError):  # the first folder of a package wins, as on sys.path
                link.symlink_to(source)


def _sources(name: str) -> list[tuple[str, Path]]:
    """Return (path of the link, file or folder) of what provides a package or module."""
    package = _outermost_package(name)
    if package is not None:
        path = package.name.replace(".", "/")
        folders = [Path(place).absolute() for place in package.submodule_search_locations or ()]
        if package.origin is None:  # without an __init__: distributions may share the folder
            files = [file for folder in folders if folder.is_dir() for file in folder.iterdir()]
            return [(f"{path}/{file.name}", file) for file in files]
        source = folders[0] if folders else Path(package.origin).absolute()
        if source.exists():
            return [(path if folders else source.name, source)]
    where = f" ({package.origin})" if package is not None else ""
    raise ConfigError(
        f"{name!r} can't be handed to another interpreter: it is no package or module in "
        f"files{where}",
        hint="env.train.python and env.eval.python need the simulator's package as files, not in "
        "an archive, and installed where rlcore is",
    )


def _outermost_package(name: str) -> ModuleSpec | None:
    """Find the outermost package with an `__init__` that contains a module.

    A folder without an `__init__` is not taken, because unrelated distributions may share it. If
    the module has no other package, the folder that directly contains it is taken.
    """
    outermost = None
    for package in accumulate(name.split("."), "{}.{}".format):
        try:
            spec = importlib.util.find_spec(package)
        except (ImportError, ValueError, AttributeError):
            break
        if spec is None or (outermost is not None and spec.submodule_search_locations is None):
            break
        outermost = spec
        if spec.origin is not None:
            break
    return outermost
