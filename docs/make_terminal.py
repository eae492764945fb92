"""Draw what a command prints, as a terminal of 80 columns shows it at the end.

    python docs/make_terminal.py PICTURE.svg 'rlcore train quickstart'

Bars, which are gone by then, are not drawn; the folder it is run in is written `~`. Fails where the
command does.
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

COLUMNS = 80
FONT = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
"""Fonts from the network: pages are read without one."""


def main(picture: Path, command: str) -> None:
    """Run it, and write the picture."""
    said = subprocess.run(
        command, shell=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env=os.environ | {"COLUMNS": str(COLUMNS)}, check=True,
    ).stdout  # fmt: skip
    picture.write_text(drawn(command, said.replace(str(Path.cwd()), "~")))


def drawn(command: str, said: str) -> str:
    """The picture, as SVG."""
    console = Console(width=COLUMNS, record=True, file=io.StringIO(), force_terminal=True)
    console.print(Text(f"$ {command}", "bold"), Text.from_ansi(said), sep="\n")
    return FONT.sub("", console.export_svg(title="rlcore"))


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), sys.argv[2])
