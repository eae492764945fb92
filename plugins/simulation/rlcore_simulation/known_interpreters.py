"""Remember the simulator environments and interpreters that this user has made or used. Light.

They are recorded in a file of the user's, so that they can be listed, and so that a run folder may
name one of them.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from rlcore_simulation import interpreters


def home() -> Path:
    """Where environments are made and noted: XDG_DATA_HOME/rlcore, else ~/.local/share/rlcore."""
    data = os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")
    return Path(data).absolute() / "rlcore"


def note(python: Path | str) -> None:
    """Remember an environment or interpreter that the user has made or named."""
    path = os.path.abspath(python)
    if not known(path):
        with suppress(OSError):  # a home that can't be written: it is asked for again
            home().mkdir(parents=True, exist_ok=True)
            with (home() / "interpreters").open("a", encoding="utf-8") as file:
                file.write(f"{path}\n")


def noted() -> list[str]:
    """What was noted and is still there, the oldest first."""
    try:
        lines = (home() / "interpreters").read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return []
    return [path for path in dict.fromkeys(lines) if path and os.path.exists(path)]


def known(python: object) -> bool:
    """Whether the user has made or named this interpreter before, or its environment. So is one
    that is gone, which runs nothing: whoever looks at it says so."""
    if not isinstance(python, str):
        return False
    if os.path.isabs(python) and not os.path.exists(interpreters.executable_of(python)):
        return True
    names = {os.path.abspath(path) for path in (python, interpreters.executable_of(python))}
    there = noted()
    return not names.isdisjoint([*there, *map(interpreters.executable_of, there)])
