"""Record paths that this user named or made, in files of the user's data folder. Light."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def home() -> Path:
    """Return the folder of environments and of the records.

    It is XDG_DATA_HOME/rlcore, else ~/.local/share/rlcore.
    """
    data = os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")
    return Path(data).absolute() / "rlcore"


def add(record: str, path: str) -> None:
    """Append an absolute path to a record, unless it is there already.

    Args:
        record: name of the file.
    """
    if path in read(record):
        return
    with suppress(OSError):  # without a record the user is asked again in a later run
        home().mkdir(parents=True, exist_ok=True)
        with (home() / record).open("a", encoding="utf-8") as file:
            file.write(f"{path}\n")


def read(record: str) -> list[str]:
    """Return the paths of a record that still exist, the oldest first."""
    try:
        lines = (home() / record).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return []
    return [path for path in dict.fromkeys(lines) if path and os.path.exists(path)]
