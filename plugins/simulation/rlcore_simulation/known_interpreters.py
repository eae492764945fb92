"""Record the simulator environments and interpreters that this user made or used. Light to import.

The record serves to list them, and to decide which interpreters a run folder may name.
"""

from __future__ import annotations

import os
from pathlib import Path

from rlcore_simulation import known_paths
from rlcore_simulation.interpreters import executable_of
from rlcore_simulation.known_paths import home as home

RECORD = "interpreters"


def note(python: Path | str) -> None:
    """Record an environment or interpreter that the user made or named."""
    path = os.path.abspath(python)
    if not known(path):
        known_paths.add(RECORD, path)


def noted() -> list[str]:
    """Return the recorded paths that still exist, the oldest first."""
    return known_paths.read(RECORD)


def known(python: object) -> bool:
    """Check whether the user made or named this interpreter, or its environment, before.

    An absolute path that does not exist counts as known: it can't execute anything, and the error
    that it is missing is raised where it is used.
    """
    if not isinstance(python, str):
        return False
    executable = executable_of(python)
    if os.path.isabs(python) and not os.path.exists(executable):
        return True
    return os.path.abspath(executable) in map(executable_of, noted())
