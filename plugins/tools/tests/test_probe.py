"""Plugins that would take the process down: found apart, named, remembered, and left out."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from rlcore_tools import probe

from rlcore.plugins import entry_points
from rlcore.plugins.registry import PluginRow, Registry

SOUND = "RLCORE_API = (0, 4)\n"


@pytest.fixture
def plugin(install, tmp_path, monkeypatch, probed):
    """Writes the plugin `their_maze`, which is imported apart first."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    monkeypatch.setattr(probe, "SECONDS", 3.0)
    file = tmp_path / "site" / "their_maze.py"

    def write(source: str) -> Path:
        if file.exists():
            file.write_text(SOUND + source)
        else:
            install("their-maze", "their_maze", SOUND + source)
        return file

    return write


def row() -> PluginRow:
    (found,) = [row for row in Registry.load(environ={}).rows() if row.distribution == "their-maze"]
    return found


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("import os; os.abort()", r"ends the process with SIGABRT (.*their_maze.py:2)"),
        ("import ctypes; ctypes.string_at(0)", r"ends the process with SIGSEGV (.*)"),
        ("import os; os._exit(3)", "ends the process with exit code 3"),
        ("import time; time.sleep(60)", r"has not ended after 3 s (.*their_maze.py:2)"),
        ("while True: print('x' * 1000)", "writes more than 64 KiB"),
    ],
)
def test_one_that_would_take_the_command_down_is_named_and_the_others_work(plugin, source, said):
    plugin(source)
    found = row()
    before, _, after = said.partition("(.*")
    assert found.status == "BAD" and found.reason.startswith(before), found.reason
    assert after in found.reason
    assert found.reason.endswith("imported; RLCORE_BLOCK_PLUGINS=their_maze leaves it out")
    assert Registry.load(environ={}).get("command", "train").distribution == "rlcore"


def test_what_came_of_it_is_remembered_until_its_file_changes(plugin, monkeypatch):
    file = plugin("import os; os.abort()")
    assert row().status == "BAD"

    def started(*words, **named):
        raise AssertionError("a process was started")

    with monkeypatch.context() as patched:
        patched.setattr(subprocess, "Popen", started)
        assert row().status == "BAD"
        file.write_text(SOUND)
        with pytest.raises(AssertionError, match="a process was started"):
            probe.outcome(entry_points.installed({})[-1])
    assert row().status == "ok"


def test_memory_that_is_damaged_or_can_not_be_written_costs_the_probe_alone(plugin, tmp_path):
    plugin("")
    assert row().status == "ok"
    memory = tmp_path / "caches/rlcore/plugins"
    for kept in memory.iterdir():
        kept.write_text("{")
    assert row().status == "ok"
    shutil.rmtree(memory)
    memory.write_text("no folder")
    assert row().status == "ok"


def test_what_python_can_catch_is_told_as_before(plugin):
    plugin("raise SystemExit('no licence')")
    found = row()
    assert found.status == "BAD"
    assert re.fullmatch(r"SystemExit: no licence \(.*their_maze\.py:2\)", found.reason)


def test_one_that_is_slow_is_not_plainly_ok(plugin, monkeypatch):
    monkeypatch.setattr(probe, "SLOW_SECONDS", 0.2)
    plugin("import time; time.sleep(0.3)")
    found = row()
    assert found.status == "slow" and "for which every command waits" in found.reason


def test_what_it_prints_is_not_the_output_of_a_command(plugin, capsys):
    plugin("print('hello')")
    assert row().status == "ok"
    told = capsys.readouterr()
    assert (told.out, told.err) == ("", "hello\n")
