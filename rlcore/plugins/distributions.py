"""Read the metadata of installed distributions. Light.

`importlib.metadata` gives the same, but its imports (`email`, `zipfile`) would take a third of the
time of `rlcore plugins`. Only folders `NAME-VERSION.dist-info` and `.egg-info` on `sys.path` are
read; distributions inside zip files are not found.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from functools import cache


def folders() -> dict[str, str]:
    """Return the metadata folder of each distribution, by its :func:`normal` name.

    Of two distributions with the same name, the first on `sys.path` counts, as in an import.
    """
    metadata_folders: dict[str, str] = {}
    for folder in reversed([*map(os.path.abspath, sys.path)]):
        with contextlib.suppress(OSError):  # not a folder, or not readable
            metadata_folders |= _folders_in(folder, os.stat(folder).st_mtime_ns)
    return metadata_folders


@cache
def _folders_in(folder: str, _modified: int) -> dict[str, str]:
    """Return the metadata folders in one folder of `sys.path`, by normal name.

    Args:
        folder: absolute path of the folder.
        _modified: its modification time in ns, part of the cache's key, so that the folder is
            listed again after an installation.
    """
    return {
        normal(entry.rpartition(".")[0].partition("-")[0]): os.path.join(folder, entry)
        for entry in sorted(os.listdir(folder), reverse=True)
        if entry.endswith((".dist-info", ".egg-info"))
    }


def requires(name: str) -> list[str]:
    """Return the requirements of a distribution, as PEP 508 lines; empty if not installed."""
    fields = headers(folders().get(normal(name), ""))
    return [value for field, value in fields if field == "Requires-Dist"]


def headers(folder: str) -> list[tuple[str, str]]:
    """Return `(field, value)` of each header in a metadata folder, without the description."""
    text = read(folder, "METADATA") or read(folder, "PKG-INFO")
    return re.findall(r"^([\w-]+): *(.+)", text.partition("\n\n")[0], re.M)


def read(folder: str, name: str) -> str:
    """Return the text of a file in a metadata folder; empty if it can't be read."""
    path = os.path.join(folder, name)
    with contextlib.suppress(OSError), open(path, encoding="utf-8", errors="replace") as file:
        return file.read()
    return ""


def normal(name: str) -> str:
    """Normalize the name of a distribution as PEP 503 does: `My_Name` -> `my-name`."""
    return re.sub(r"[-_.]+", "-", name).lower()
