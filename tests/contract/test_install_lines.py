"""What pages and errors tell a user to install works where no package index has rlcore."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from internals import extras

ROOT = Path(__file__).parents[2]
PAGES = [
    page
    for pattern in ("*.md", "docs/**/*.md", "examples/*/*.md", "plugins/**/README.md")
    for page in sorted(ROOT.glob(pattern))
]
COMMAND = re.compile(r"pip install [^`#\n]*")
OURS = re.compile(r"\brlcore(-[a-z-]+)?\[|\brlcore-[a-z]")


def commands(text: str) -> list[str]:
    """The pip commands in a page that install distributions of ours, or extras of them."""
    return [found for found in COMMAND.findall(text) if OURS.search(found)]


def test_pages_say_where_pip_finds_the_wheels():
    assert sum(len(commands(page.read_text())) for page in PAGES) > 20
    lacking = {
        f"{page.relative_to(ROOT)}: {command}"
        for page in PAGES
        for command in commands(page.read_text())
        if extras.WHEELS not in command and page.name != "glossary.md"
    }
    assert lacking == set()


def test_hints_are_written_in_one_place():
    """No module of ours spells out a command that installs rlcore."""
    files = [*ROOT.glob("rlcore/**/*.py"), *ROOT.glob("plugins/**/rlcore_*/**/*.py")]
    spelled = {
        str(file.relative_to(ROOT))
        for file in files
        if "/tests/" not in str(file) and re.search(r"pip install [\"']?rlcore", file.read_text())
    }
    assert spelled == set()


@pytest.mark.parametrize(("option", "end"), [("--find-links dist", " --find-links dist"), ("", "")])
def test_publishing_changes_one_line(monkeypatch, option, end):
    monkeypatch.setattr(extras, "SCRIPT", Path("/no/clone/install.sh"))
    monkeypatch.setattr(extras, "WHEELS", option)
    assert extras.install_command(["ppo", "libero"]) == f'pip install "rlcore[libero,ppo]"{end}'
