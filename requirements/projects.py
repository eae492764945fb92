"""Which projects of this clone give rlcore some extras, as lines for pip. Standard library only.

python requirements/projects.py metaworld openpi
-e .[metaworld,openpi]
-e plugins/envs/metaworld
...
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FILE = "pyproject.toml"


def lines(extras: list[str]) -> list[str]:
    """The root with its extras, and every project that these need, also by way of others.

    Raises:
        ValueError: an extra that the root does not have.
    """
    folders = {_name(file): file.parent for file in ROOT.glob(f"plugins/**/{FILE}")}
    found: dict[str, Path] = {}
    wanted = [name for extra in extras for name in _listed(ROOT / FILE, extra)]
    while wanted:
        name = re.split(r"[^A-Za-z0-9-]", wanted.pop(), maxsplit=1)[0]
        if name in folders and name not in found:
            found[name] = folders[name]
            wanted += _listed(folders[name] / FILE, "dependencies")
    places = sorted(folder.relative_to(ROOT).as_posix() for folder in found.values())
    return [f"-e .[{','.join(extras)}]", *(f"-e {place}" for place in places)]


def _name(file: Path) -> str:
    return re.search(r'^name = "(.+)"', file.read_text(), re.MULTILINE)[1]


def _listed(file: Path, key: str) -> list[str]:
    """A list of strings, which TOML writes as Python does."""
    found = re.search(rf"^{key} = (\[.*?\])$", file.read_text(), re.MULTILINE | re.DOTALL)
    if found is None:
        raise ValueError(f"{file} has no {key}")
    return ast.literal_eval(found[1])


if __name__ == "__main__":
    print("\n".join(lines(sys.argv[1:])))
