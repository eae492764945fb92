"""Write what libraries print and log in workers to files of the run, not to the terminal.

A worker with a process of its own writes all its output to `RUN/workers/ROLE_RANK.log`. Workers in
the driver's process write there what goes to `sys.stderr`, the output of loggers and warnings;
`print` and the prompt of pdb stay in the terminal.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO, cast

from rlcore.contracts.errors import RunWarning


class OutputFile(io.TextIOBase):
    """Text stream that appends to a file and creates it, with its folder, on the first write."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: TextIO | None = None

    def _opened(self) -> TextIO:
        if self._file is None:
            self._path.parent.mkdir(exist_ok=True)
            # open as long as the process, as loggers keep their stream
            self._file = io.TextIOWrapper(
                io.FileIO(self._path, "a"), "utf-8", errors="replace", line_buffering=True
            )
        return self._file

    def write(self, text: str) -> int:
        """Write a text; return its length."""
        return self._opened().write(text)

    def flush(self) -> None:
        """Flush the file, if something was written."""
        if self._file is not None:
            self._file.flush()

    def fileno(self) -> int:
        """Return the descriptor of the file, for child processes."""
        return self._opened().fileno()


@contextlib.contextmanager
def stderr_to(output: OutputFile | None) -> Iterator[None]:
    """Write to a file what goes to `sys.stderr` in this context, except warnings of rlcore.

    Args:
        output: the file; None: nothing changes.
    """
    if output is None:
        yield
        return
    terminal = sys.stderr
    show_warning = warnings.showwarning

    def show(message: Any, category: type[Warning], *place: Any, **more: Any) -> None:
        shown = terminal if issubclass(category, RunWarning) else sys.stderr
        with contextlib.redirect_stderr(shown):
            show_warning(message, category, *place, **more)

    warnings.showwarning = show
    try:
        with contextlib.redirect_stderr(cast(TextIO, output)):
            yield
    finally:
        warnings.showwarning = show_warning


def redirect_process(folder: Path, name: str) -> None:
    """Append the output of this process to `folder/NAME.log` until it ends.

    That includes the output of C libraries and of child processes. A node that does not see the
    folder's parent, the folder of the run, keeps its output.
    """
    if not folder.parent.is_dir():
        return
    folder.mkdir(exist_ok=True)
    log = os.open(folder / f"{name}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    for descriptor in (1, 2):
        os.dup2(log, descriptor)
    os.close(log)


def remove_empty(folder: Path) -> None:
    """Remove the files of workers that wrote nothing, and the folder if none is left."""
    for log in folder.glob("*.log"):
        if not log.stat().st_size:
            log.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # not empty, or never created
        folder.rmdir()
