"""Record the simulator environments and interpreters that this user made or used. Light to import.

The record is a file in the user's data folder. It serves to list them, and to decide which
interpreters a run folder may name.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from rlcore_simulation.interpreters import executable_of


def home() -> Path:
    """Return the folder of environments and of their record.

    It is XDG_DATA_HOME/rlcore, else ~/.local/share/rlcore.
    """
    data = os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")
    return Path(data).absolute() / "rlcore"


def note(python: Path | str) -> None:
    """Record an environment or interpreter that the user made or named."""
    path = os.path.abspath(python)
    if not known(path):
        with suppress(OSError):  # without a record the user is asked again in a later run
            home().mkdir(parents=True, exist_ok=True)
            with (home() / "interpreters").open("a", encoding="utf-8") as file:
                file.write(f"{path}\n")


def noted() -> list[str]:
    """Return the recorded paths that still exist, the oldest first."""
    try:
        lines = (home() / "interpreters").read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return []
    return [path for path in dict.fromkeys(lines) if path and os.path.exists(path)]


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
