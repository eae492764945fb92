"""Print tables and progress bars with rich. Light.

Text is never parsed as rich markup, and control characters in it are escaped, because names and
texts may come from files of other people.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable
from typing import TextIO, cast

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from rlcore.utils.stdio import PlainOutput, TerminalText
from rlcore.utils.text import strip_control


class Canvas(Console):
    """rich console without markup, whose text has its control characters escaped.

    Args:
        width: width in characters; None: width of the terminal.
        colours: whether to use colours; None: only in a terminal.
        file: output stream; None: the current standard output, or no output if that is closed.
    """

    def __init__(
        self, width: int | None = None, colours: bool | None = None, file: TextIO | None = None
    ) -> None:
        super().__init__(
            file=cast(TextIO, PlainOutput(file or sys.stdout or io.StringIO(), TerminalText)),
            width=width,
            force_terminal=colours,
            color_system="auto" if colours is None else "standard" if colours else None,
            markup=False,
            highlight=False,
        )

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Yield the segments of a renderable, with control characters of their text escaped.

        Control segments pass unchanged: rich creates them to move the cursor.
        """
        for segment in super().render(renderable, options):
            yield (
                segment if segment.control else Segment(strip_control(segment.text), segment.style)
            )


def as_text(*parts: RenderableType, width: int) -> str:
    """Render tables and lines without colours, for logs and files.

    Args:
        parts: tables, or strings, which are not wrapped.
        width: width of the tables in characters.
    """
    canvas = Canvas(width, colours=False)
    with canvas.capture() as captured:
        for part in parts:
            canvas.print(part, soft_wrap=isinstance(part, str))
    return "\n".join(line.rstrip() for line in captured.get().splitlines())
