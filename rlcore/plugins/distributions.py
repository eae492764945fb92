"""Read what installed distributions say of themselves. Light: importlib.metadata, which tells the
same, loads mail and zip files first, a third of the time of `rlcore plugins`.

Knows the folders `NAME-VERSION.dist-info` and `.egg-info` on `sys.path`, none inside a zip file.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from pathlib import Path


def folders() -> dict[str, str]:
    """The folder of each distribution's metadata, by :func:`normal` name. Of two of one name the
    first on the path counts, which is imported."""
    found = dict[str, str]()
    for place in sys.path:
        with contextlib.suppress(OSError):  # not a folder
            for entry in sorted(os.listdir(place or ".")):
                stem, ending = os.path.splitext(entry)
                if ending in (".dist-info", ".egg-info"):
                    found.setdefault(normal(stem.partition("-")[0]), os.path.join(place, entry))
    return found


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
    with contextlib.suppress(OSError):
        return Path(place, name).read_text(encoding="utf-8", errors="replace")
    return ""


def normal(name: str) -> str:
    """`My_Name` -> `my-name`: names that differ in this alone are one."""
    return re.sub(r"[-_.]+", "-", name).lower()
