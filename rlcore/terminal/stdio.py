"""Make standard output safe for a terminal, and continue a run where it can't be written.

Names and texts from outside must not control the terminal, so control characters are escaped.
`rlcore train | head -1` or a closed terminal end neither training nor its checkpoints: from then on
output is dropped.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, TextIO, cast

from rlcore.terminal.text import plain

RAY_LISTENER = "ray_listen_error_messages"  # its thread prints pages; we report what failed


class TerminalText(str):
    """Text with colours and moves of the cursor that are ours; nothing of it is spelled out."""


class PlainOutput:
    """A text stream on which control characters are spelled out, and letters that it lacks are
    replaced.

    Args:
        stream: where it goes.
        means: what becomes of a text; :class:`TerminalText`: it is ours.
    """

    def __init__(self, stream: TextIO, means: Callable[[str], str] = plain) -> None:
        self._stream = stream
        self._means = means

    def write(self, text: str) -> int:
        """Write; returns the length of the text."""
        if not isinstance(text, TerminalText):
            text = self._means(text)
        try:
            self._stream.write(text)
        except UnicodeEncodeError:
            encoding = self._stream.encoding
            lacking = text.encode(encoding, "replace").decode(encoding)
            self._stream.write(TerminalText(lacking))
        return len(text)

    def writelines(self, lines: Any) -> None:
        """Likewise."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:  # encoding, isatty, fileno, ...: the stream's own
        return getattr(self._stream, name)


class BrokenPipeTolerantOutput(PlainOutput):
    """One that takes everything; what can't be written is dropped.

    Once a write has failed, the file behind the stream is the null device, so that what is still
    buffered, and what libraries write, is taken too.
    """

    def write(self, text: str) -> int:
        """Write, or drop; returns the length of the text."""
        if threading.current_thread().name != RAY_LISTENER:
            with self._dropping():
                super().write(text)
        return len(text)

    def flush(self) -> None:
        """Flush, or drop."""
        with self._dropping():
            self._stream.flush()

    @contextlib.contextmanager
    def _dropping(self) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError):  # reader or terminal gone, disk full; or it was closed
            with contextlib.suppress(OSError, ValueError):
                null = os.open(os.devnull, os.O_WRONLY)
                os.dup2(null, self._stream.fileno())
                os.close(null)


def escape_output() -> None:
    """Make standard output and standard error plain, to the end of the process."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is not None and not isinstance(stream, PlainOutput):
            setattr(sys, name, PlainOutput(stream))


@contextlib.contextmanager
def tolerate_broken_output() -> Iterator[None]:
    """Standard output and standard error inside last, whatever becomes of them."""
    former = sys.stdout, sys.stderr
    with contextlib.ExitStack() as stack:
        streams = [
            stack.enter_context(open(os.devnull, "w", encoding="utf-8")) if one is None else one
            for one in former
        ]
        lasting = [cast(TextIO, BrokenPipeTolerantOutput(one)) for one in streams]
        sys.stdout, sys.stderr = lasting
        try:
            yield
        finally:
            for stream in lasting:  # an env may have put others in their place
                stream.flush()
            sys.stdout, sys.stderr = former
