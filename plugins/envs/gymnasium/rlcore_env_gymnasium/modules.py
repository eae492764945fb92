"""Find the module that the id of an env names, also in the current folder. Light.

`python -m` looks for a module in the current folder; processes of a run don't, as any file there
could hide a module of theirs. A run therefore records the folder of the one module that its id
names (`env.*.module_path`), and its processes search that folder after all others.
"""

from __future__ import annotations

import os
from importlib.util import find_spec

from rlcore_simulation import known_paths

RECORD = "module_folders"
"""Name of the user's record of folders whose modules their runs have imported.

A folder is trusted as a whole: the run of another person may then import any module in it. Python
does the same with a folder in PYTHONPATH, since a module may import its neighbours.
"""


def module_of(ident: str) -> str:
    """Return the top module that an id names, as in `module.part:Name-v0`; "" if it names none."""
    return ident.rpartition(":")[0].partition(".")[0]


def folder_of(ident: str) -> str | None:
    """Return the current folder, if the module in `module:Name-v0` is in it and nowhere else."""
    top = module_of(ident)
    if not top.isidentifier():
        return None
    here = os.getcwd()
    places = (f"{top}.py", os.path.join(top, "__init__.py"))
    if not any(os.path.isfile(os.path.join(here, place)) for place in places):
        return None
    found = find_spec(top)
    if found is None or (found.origin or "").startswith(os.path.join(here, "")):
        return here
    return None


def note(folder: str) -> None:
    """Record a folder from which a run that the user started imports a module, as trusted."""
    known_paths.add(RECORD, folder)


def known(folder: object) -> bool:
    """Check whether a run that the user started imported a module from this folder before."""
    return isinstance(folder, str) and os.path.abspath(folder) in known_paths.read(RECORD)
