"""Each broken plugin is found by the commands of its case; docs/broken-plugins.md quotes them."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest
import rlcore_algo_ppo.ppo  # noqa: F401
import rlcore_testing  # noqa: F401  # each command is a fork of this process
from broken_plugins import CASES, written
from forked_commands import SAID, forked
from test_new import importable

import rlcore.training.train  # noqa: F401
from rlcore.cli.main import main
from rlcore.plugins.registry import load_plugins

WORDS = {
    "plugins": ["plugins"],
    "--dry-run": ["train", "broken", "--dry-run"],
    "train": ["train", "broken"],
    "check": ["check", "broken"],
}


def output_of(command: str, folder: Path) -> tuple[int, str]:
    """The exit code of a command where that package is installed, and what it prints."""
    importable(folder, "broken")

    def run() -> int:
        os.environ |= {"PYTHONPATH": str(folder), "XDG_CACHE_HOME": str(folder / "cache")}
        sys.path.insert(0, str(folder))
        sys.stdout, sys.stderr = (os.fdopen(fd, "w", closefd=False) for fd in (1, 2))
        load_plugins.cache_clear()
        return main(WORDS.get(command) or [*command.split(), "broken"])

    code = forked(run, folder)
    output = " ".join((folder / SAID).read_text().split())
    assert "Traceback" not in output, output
    return code, output


def test_each_case_is_another():
    assert len({case.wrong for case in CASES}) == len(CASES) >= 12


def test_the_page_quotes_what_is_printed():
    page = (Path(__file__).parents[3] / "docs/broken-plugins.md").read_text()
    printed = "\n".join(text for case in CASES for text in case.found.values())
    rows = page.split("| what happens |")[1].splitlines()[2:]
    assert len(rows) > 15
    for row in rows:
        quotes = re.findall("`(.+?)`", row.split(" | ")[1])
        assert quotes, row
        for quote in quotes:
            assert quote in printed, quote


@pytest.mark.long
@pytest.mark.parametrize("command", WORDS)
def test_a_sound_plugin_has_no_finding(command, tmp_path):
    written(None, tmp_path)
    code, output = output_of(command, tmp_path)
    assert code == 0 and "BAD" not in output, output
    assert command != "check" or ("6 components" in output and "0 findings" in output)
    assert command != "--dry-run" or "rlcore check broken" in output  # never checked


@pytest.mark.long
@pytest.mark.parametrize(
    ("case", "command"),
    [(case, command) for case in CASES for command in case.found],
    ids=lambda given: given if isinstance(given, str) else given.wrong.replace(" ", "-"),
)
def test_a_broken_plugin_is_found(case, command, tmp_path):
    written(case, tmp_path)
    code, output = output_of(command, tmp_path)
    assert case.found[command] in output, (case.plugin, output)
    # a dry run shows the plan with what is missing
    assert command == "--dry-run" or (code == 0) == case.warns, output
