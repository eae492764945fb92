"""Escape control characters in standard output, and drop output that can't be written.

Names and texts from outside must not control the terminal, so control characters are escaped. A
broken pipe (`rlcore train | head -1`) or a closed terminal does not stop training: later output is
dropped.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, TextIO, cast

from rlcore.utils.text import strip_control

RAY_LISTENER = "ray_listen_error_messages"
"""Name of Ray's thread that prints long tracebacks. They are dropped: rlcore reports the errors."""


class TerminalText(str):
    """Text whose control characters rlcore wrote (colours, cursor movement); not escaped."""


class PlainOutput:
    """Text stream that escapes control characters and replaces unencodable ones.

    Args:
        stream: stream to write to.
        means: function applied to each text before writing; :class:`TerminalText`: no escaping.
    """

    def __init__(self, stream: TextIO, means: Callable[[str], str] = strip_control) -> None:
        self._stream = stream
        self._means = means

    def write(self, text: str) -> int:
        """Write a text; return the length of the written text."""
        if not isinstance(text, TerminalText):
            text = self._means(text)
        try:
            self._stream.write(text)
        except UnicodeEncodeError:
            encoding = self._stream.encoding
            encodable = text.encode(encoding, "replace").decode(encoding)
            self._stream.write(TerminalText(encodable))
        return len(text)

    def writelines(self, lines: Any) -> None:
        """Write lines as :meth:`write` does."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:  # encoding, isatty, fileno, ... of the stream
        return getattr(self._stream, name)


class BrokenPipeTolerantOutput(PlainOutput):
    """Text stream that drops output that can't be written.

    After a failed write the stream's file descriptor refers to the null device. So flushing the
    buffer and writes of libraries to the descriptor succeed too.
    """

    def write(self, text: str) -> int:
        """Write a text or drop it; return its length."""
        if threading.current_thread().name != RAY_LISTENER:
            with self._dropping():
                super().write(text)
        return len(text)

    def flush(self) -> None:
        """Flush the buffer, or drop its content."""
        with self._dropping():
            self._stream.flush()

    @contextlib.contextmanager
    def _dropping(self) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError):  # broken pipe, closed terminal, full disk; closed stream
            with contextlib.suppress(OSError, ValueError):
                null = os.open(os.devnull, os.O_WRONLY)
                os.dup2(null, self._stream.fileno())
                os.close(null)


def escape_output() -> None:
    """Escape control characters in standard output and standard error until the process ends."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is not None and not isinstance(stream, PlainOutput):
            setattr(sys, name, PlainOutput(stream))


@contextlib.contextmanager
def tolerate_broken_output() -> Iterator[None]:
    """Drop output that can't be written to standard output and standard error in this context."""
    former = sys.stdout, sys.stderr
    with contextlib.ExitStack() as stack:
        streams = [
            stack.enter_context(open(os.devnull, "w", encoding="utf-8"))
            if stream is None
            else stream
            for stream in former
        ]
        tolerant = [cast(TextIO, BrokenPipeTolerantOutput(stream)) for stream in streams]
        sys.stdout, sys.stderr = tolerant
        try:
            yield
        finally:
            for output in tolerant:  # not sys.stdout: an env may have replaced it
                output.flush()
            sys.stdout, sys.stderr = former
