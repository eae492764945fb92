"""The tables of checkpoint layouts in the docs: every row names a test that exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/checkpoints.md"
HEAD = "| layout | what happens | test |"


def rows(text: str) -> list[list[str]]:
    """Cells of the rows of all tables of layouts."""
    tables = [part.split("\n\n")[0] for part in text.split(f"{HEAD}\n")[1:]]
    lines = [line for table in tables for line in table.splitlines()[1:]]
    return [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in lines]


ROWS = rows(PAGE.read_text())


def test_there_are_tables():
    assert len(ROWS) >= 7


@pytest.mark.parametrize("cells", ROWS, ids=lambda cells: cells[0])
def test_every_layout_names_its_test(cells):
    """A test that is there, and what happens: that it loads, or that it is refused and why."""
    _layout, happens, named = cells
    assert happens.startswith(("loads", "refused: ", "refused as "))
    file, _, test = named.strip("`").partition("::")
    assert re.search(rf"^def {test}\(", (ROOT / file).read_text(), flags=re.MULTILINE), named
