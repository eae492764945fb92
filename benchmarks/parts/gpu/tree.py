"""Make the source tree importable under any Python, without installing anything.

A program finds rlcore's plugins by the metadata that an installation leaves. Here a temporary
folder gets the same metadata, made from each pyproject.toml of the tree; it, the source folders and
the unpacked wheels are put on PYTHONPATH. Torch and numpy stay those of the machine.
"""

from __future__ import annotations

import os
import re
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    from pip._vendor import tomli as tomllib  # type: ignore[no-redef]

ROOT = Path(__file__).parents[3]
GROUP = "rlcore.plugins"
_TAG = re.compile(r"-(?P<python>[^-]+)-(?P<abi>[^-]+)-[^-]+\.whl$")


def python_path(place: Path, wheels: Path | None) -> str:
    """Prepare `place`, an empty folder, and return the value of PYTHONPATH.

    Raises:
        ValueError: `wheels` is no folder, or holds none for this Python.
    """
    projects = list(_projects())
    metadata = place / "metadata"
    for folder in projects:
        _write_metadata(metadata, folder)
    found = [metadata, *projects]
    if wheels is not None:
        found.append(unpacked(wheels, place / "site"))
    inherited = os.environ.get("PYTHONPATH")
    return os.pathsep.join([*map(str, found), *([inherited] if inherited else [])])


def _projects() -> Iterator[Path]:
    """Yield the folders of the tree that are distributions, rlcore's first."""
    yield ROOT
    for pattern in ("plugins/*/pyproject.toml", "plugins/*/*/pyproject.toml"):
        yield from sorted(file.parent for file in ROOT.glob(pattern))


def _write_metadata(place: Path, folder: Path) -> None:
    project: dict[str, Any] = tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))[
        "project"
    ]
    name, version = project["name"], project["version"]
    info = place / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    lines += [f"Requires-Dist: {each}" for each in project.get("dependencies", ())]
    for extra, requirements in project.get("optional-dependencies", {}).items():
        lines += [f"Requires-Dist: {each}; extra == '{extra}'" for each in requirements]
    (info / "METADATA").write_text("\n".join(lines) + "\n", encoding="utf-8")
    points = project.get("entry-points", {}).get(GROUP, {})
    text = "".join(f"{name} = {value}\n" for name, value in points.items())
    (info / "entry_points.txt").write_text(f"[{GROUP}]\n{text}", encoding="utf-8")


def unpacked(wheels: Path, place: Path) -> Path:
    """Unpack the wheels of a folder that fit this Python, and return where.

    Raises:
        ValueError: there is none, or all of one distribution's are for other Pythons.
    """
    files = sorted(wheels.glob("*.whl"))
    if not files:
        raise ValueError(f"{wheels} holds no wheels; gather them: gpu.py --gather {wheels}")
    fitting = {_distribution(file): file for file in files if fits_python(file.name)}
    unfit = sorted({_distribution(file) for file in files} - fitting.keys())
    if unfit:
        mine = "{}.{}".format(*sys.version_info)
        raise ValueError(
            f"{wheels} has no wheel for Python {mine} of {', '.join(unfit)}; "
            f"gather them: gpu.py --gather FOLDER --for-python {mine}"
        )
    for file in fitting.values():
        with zipfile.ZipFile(file) as archive:
            archive.extractall(place)
    return place


def fits_python(name: str) -> bool:
    """Return whether a wheel of that file name is for the running Python."""
    match = _TAG.search(name)
    if match is None:
        return False
    mine = sys.version_info[1]
    for tag in match["python"].split("."):
        if tag.startswith("py3") or tag == "py2.py3":
            return True
        minor = re.fullmatch(r"cp3(\d+)", tag)
        if minor and (int(minor[1]) == mine or (match["abi"] == "abi3" and int(minor[1]) <= mine)):
            return True
    return False


def _distribution(file: Path) -> str:
    return file.name.partition("-")[0]
