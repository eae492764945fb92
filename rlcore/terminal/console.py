"""Print tables and bars with rich. Light.

Names and texts from outside are not read as markup, and control characters in them are escaped.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable
from typing import TextIO, cast

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from rlcore.terminal.stdio import PlainOutput, TerminalText
from rlcore.terminal.text import plain


class Canvas(Console):
    """A console.

    Args:
        width: in characters; None: that of the terminal.
        colours: whether there may be any; None: in a terminal.
        file: None: standard output, as it is when this is made; nowhere if that was closed.
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
        """Render the parts of a picture; moves of the cursor are rich's own."""
        for part in super().render(renderable, options):
            yield part if part.control else Segment(plain(part.text), part.style)


def as_text(*parts: RenderableType, width: int) -> str:
    """Render tables and lines without colours, for logs and files; a line may be longer than the
    width."""
    canvas = Canvas(width, colours=False)
    with canvas.capture() as captured:
        for part in parts:
            canvas.print(part, soft_wrap=isinstance(part, str))
    return "\n".join(line.rstrip() for line in captured.get().splitlines())
