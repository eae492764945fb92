"""Keep the figures of benchmarks/gpu.py in a JSON file that is whole at any moment.

Each change replaces the file at once. Where the disk is full, the last whole file stays, and the
figures are kept in memory for the next try and for the end.
"""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

FORMAT = 1


class Record:
    """The file.

    Attributes:
        data: what it holds: "format", "command", "started", "quick", "commit", "rows".
        unwritten: why the last try to write failed; empty: the file is up to date.

    Args:
        path: where it lies.
        data: see above.
    """

    def __init__(self, path: Path, data: dict[str, Any]) -> None:
        self._path = path
        self.data = {"format": FORMAT, "rows": [], **data}
        self.unwritten = ""

    def row(self, name: str) -> dict[str, Any] | None:
        """Return what is kept of a row, by its full name; None: nothing."""
        return next((row for row in self.data["rows"] if row["row"] == name), None)

    def keep(self, row: dict[str, Any]) -> None:
        """Add a row, in the place of an earlier one of its name, and write the file."""
        rows = [kept for kept in self.data["rows"] if kept["row"] != row["row"]]
        self.data["rows"] = [*rows, row]
        self.write()

    def write(self) -> None:
        """Replace the file."""
        partial = self._path.with_name(f"{self._path.name}.{os.getpid()}.partial")
        try:
            with partial.open("w", encoding="utf-8") as file:
                json.dump(self.data, file, indent=1)
                file.write("\n")
                file.flush()
                os.fsync(file.fileno())
            os.replace(partial, self._path)
        except OSError as error:
            self.unwritten = f"can't write {self._path}: {error.strerror or error}"
            with contextlib.suppress(OSError):
                partial.unlink()
        else:
            self.unwritten = ""


def read_record(path: Path) -> dict[str, Any]:
    """Read such a file.

    Raises:
        ValueError: it is none; the message names the file.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} can't be read as figures of benchmarks/gpu.py: {error}") from None
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ValueError(f"{path} holds no figures of benchmarks/gpu.py in format {FORMAT}")
    return data
