"""Read what installed distributions say of themselves. Light: importlib.metadata, which tells the
same, loads mail and zip files first, a third of the time of `rlcore plugins`.

Knows the folders `NAME-VERSION.dist-info` and `.egg-info` on `sys.path`, none inside a zip file.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from functools import cache


def folders() -> dict[str, str]:
    """The folder of each distribution's metadata, by :func:`normal` name. Of two of one name the
    first on the path counts, which is imported."""
    found: dict[str, str] = {}
    for place in reversed([*map(os.path.abspath, sys.path)]):
        with contextlib.suppress(OSError):  # not a folder
            found |= _listed(place, os.stat(place).st_mtime_ns)
    return found


@cache
def _listed(place: str, _changed: int) -> dict[str, str]:
    """The same of one folder on the path, listed again when something was installed there."""
    return {
        normal(entry.rpartition(".")[0].partition("-")[0]): os.path.join(place, entry)
        for entry in sorted(os.listdir(place), reverse=True)
        if entry.endswith((".dist-info", ".egg-info"))
    }


def requires(name: str) -> list[str]:
    """The requirements of a distribution, a line each; none of what is not installed."""
    lines = headers(folders().get(normal(name), ""))
    return [value for field, value in lines if field == "Requires-Dist"]


def headers(place: str) -> list[tuple[str, str]]:
    """`(field, value)` of its metadata, without its description, which may be long."""
    text = read(place, "METADATA") or read(place, "PKG-INFO")
    return re.findall(r"^([\w-]+): *(.+)", text.partition("\n\n")[0], re.M)


def read(place: str, name: str) -> str:
    """The text of a file of its metadata; empty where there is none."""
    path = os.path.join(place, name)
    with contextlib.suppress(OSError), open(path, encoding="utf-8", errors="replace") as file:
        return file.read()
    return ""


def normal(name: str) -> str:
    """`My_Name` -> `my-name`: names that differ in this alone are one."""
    return re.sub(r"[-_.]+", "-", name).lower()
