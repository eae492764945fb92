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
from typing import Any, BinaryIO, TextIO, cast

from rlcore.contracts.errors import RunWarning


class OutputFile(io.TextIOBase):
    """Text stream that appends to a file and creates it, with its folder, on the first write.

    It raises no error if the file can't be written (full disk, removed folder), and drops the text.
    """

    encoding = "utf-8"
    errors = "replace"

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: TextIO | None = None

    def _opened(self) -> TextIO:
        if self._file is None:
            try:
                self._path.parent.mkdir(exist_ok=True)
                opened = io.FileIO(self._path, "a")
            except OSError:
                opened = io.FileIO(os.devnull, "a")
            # open as long as the process, as loggers keep their stream; each write goes to the file
            # at once, so that texts and bytes (`buffer`) keep their order
            self._file = io.TextIOWrapper(opened, self.encoding, self.errors, write_through=True)
        return self._file

    def write(self, text: str) -> int:
        """Write a text or drop it; return its length."""
        with contextlib.suppress(OSError):
            self._opened().write(text)
        return len(text)

    def writable(self) -> bool:
        """Return True."""
        return True

    @property
    def buffer(self) -> BinaryIO:
        """The file as a stream of bytes."""
        return self._opened().buffer

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


def redirect_process(log: Path) -> None:
    """Append the output of this process to a file until it ends.

    That includes the output of C libraries and of child processes. The output stays where it is on
    a node that does not see the folder of the run, or may not write there.

    Args:
        log: the file, in a folder of the run's folder that is created if it does not exist.
    """
    try:
        log.parent.mkdir(exist_ok=True)
        opened = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    except OSError:
        return
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    for descriptor in (1, 2):
        os.dup2(opened, descriptor)
    os.close(opened)


def remove_empty(folder: Path) -> None:
    """Remove the files of workers that wrote nothing, and the folder if none is left.

    What can't be removed, e.g. the file of another user, is left.
    """
    with contextlib.suppress(OSError):  # not empty, never created, or no longer accessible
        for log in folder.glob("*.log"):
            with contextlib.suppress(OSError):
                if not log.stat().st_size:
                    log.unlink()
        folder.rmdir()
