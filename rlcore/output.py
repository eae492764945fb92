"""Standard output that may go away: a run is worth more than what it says.

`rlcore train | head -1` or a closed terminal end neither a training nor its checkpoints; from then
on what is written goes nowhere.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator
from typing import Any, TextIO, cast

RAY_LISTENER = "ray_listen_error_messages"  # its thread prints pages; we report what failed


class LastingOutput:
    """A text stream that takes everything; what can't be written is dropped.

    Once a write has failed, the file behind the stream is the null device, so that what is still
    buffered, and what libraries write, is taken too.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write, or drop; returns the length of the text."""
        if threading.current_thread().name != RAY_LISTENER:
            with self._dropping():
                try:
                    self._stream.write(text)
                except UnicodeEncodeError:  # an old terminal that lacks a letter
                    encoding = self._stream.encoding
                    self._stream.write(text.encode(encoding, "replace").decode(encoding))
        return len(text)

    def writelines(self, lines: Any) -> None:
        """Likewise."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Flush, or drop."""
        with self._dropping():
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:  # encoding, isatty, fileno, ...: the stream's own
        return getattr(self._stream, name)

    @contextlib.contextmanager
    def _dropping(self) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError):  # reader or terminal gone, disk full; or it was closed
            with contextlib.suppress(OSError, ValueError):
                null = os.open(os.devnull, os.O_WRONLY)
                os.dup2(null, self._stream.fileno())
                os.close(null)


@contextlib.contextmanager
def lasting() -> Iterator[None]:
    """Standard output and standard error inside last, whatever becomes of them."""
    former = sys.stdout, sys.stderr
    with contextlib.ExitStack() as stack:
        streams = [
            stack.enter_context(open(os.devnull, "w", encoding="utf-8")) if one is None else one
            for one in former
        ]
        sys.stdout, sys.stderr = (cast(TextIO, LastingOutput(one)) for one in streams)
        try:
            yield
        finally:
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
            sys.stdout, sys.stderr = former
