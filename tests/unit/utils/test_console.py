"""What rich draws: its own colours, and texts of others that can't add to them."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest
from rich.progress import Progress
from rich.table import Table

from rlcore.utils.console import Canvas, as_text
from rlcore.utils.stdio import PlainOutput

HOSTILE = "name\x1b]0;x[red]x[/blue]"
SHOWN = r"name\x1b]0;x[red]x[/blue]"


@pytest.fixture
def terminal(capsys, monkeypatch: pytest.MonkeyPatch) -> Callable[[], str]:
    monkeypatch.setattr(sys, "stdout", PlainOutput(sys.stdout))
    return lambda: capsys.readouterr().out


def table() -> Table:
    made = Table("the name of the task, in full", title=HOSTILE, title_style="bold")
    made.add_row(HOSTILE)
    return made


def test_only_own_colours_are_printed(terminal):
    canvas = Canvas(80, colours=True)
    canvas.print(table())
    canvas.print(HOSTILE)
    output = terminal()
    assert output.count(SHOWN) == 3
    assert "\x1b[1m" in output and "\x1b]" not in output


def test_bars_move_the_cursor(terminal):
    canvas = Canvas(80, colours=True)
    with Progress(console=canvas, transient=True) as bars:
        bars.add_task("rollout", total=4)
        print(HOSTILE)  # above the bars
    output = terminal()
    assert "\x1b[2K" in output and "\x1b]" not in output


def test_as_text_has_neither_colours_nor_markup(terminal):
    text = as_text(table(), "a line that is longer than the width, [b]", width=40)
    lines = text.splitlines()
    assert lines[-1] == "a line that is longer than the width, [b]"
    assert "\x1b" not in text and "[/blue]" in text and not text.endswith("\n")


def test_a_table_is_drawn_where_standard_output_was_closed(monkeypatch: pytest.MonkeyPatch):
    """`rlcore train --dry-run >&-` has None there."""
    monkeypatch.setattr(sys, "stdout", None)
    assert as_text("a", "b", width=80) == "a\nb"
