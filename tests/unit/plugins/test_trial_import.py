"""Plugins that would end or block the process are named, and left out; a success is cached."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from rlcore.plugins import registry, trial_import
from rlcore.plugins.registry import PluginRow, Registry

SOUND = "RLCORE_API = (0, 1)\n"


@pytest.fixture
def plugin(install, tmp_path, monkeypatch, probed):
    """Write the plugin `their_maze`, which is imported in a subprocess first."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    monkeypatch.setattr(trial_import, "SECONDS", 2.0)
    file = tmp_path / "site" / "their_maze.py"

    def write(source: str) -> Path:
        if file.exists():
            file.write_text(SOUND + source)
        else:
            install("their-maze", "their_maze", SOUND + source)
        return file

    return write


def row() -> PluginRow:
    rows = Registry.load(environ={}).rows()
    (of_plugin,) = [row for row in rows if row.distribution == "their-maze"]
    return of_plugin


@pytest.mark.parametrize(
    ("source", "named"),
    [
        ("import os; os.abort()", ["SIGABRT", "their_maze.py:2)"]),
        ("import ctypes; ctypes.string_at(0)", ["SIGSEGV"]),
        ("import os; os._exit(3)", ["exit code 3"]),
        ("import time; time.sleep(60)", ["after 2 s", "their_maze.py:2)"]),
        ("while True: print('x' * 1000)", ["after 2 s", "their_maze.py:2)"]),
        ("raise SystemExit('no licence')", ["SystemExit: no licence", "their_maze.py:2)"]),
    ],
)
def test_a_plugin_that_would_end_the_command_is_bad_and_the_others_work(plugin, source, named):
    plugin(source)
    found = row()
    assert found.status == "BAD"
    assert not [word for word in named if word not in found.reason], found.reason
    assert "RLCORE_BLOCK_PLUGINS=their_maze" in found.reason or "licence" in found.reason
    assert Registry.load(environ={}).get("command", "train").distribution == "rlcore"


def test_a_success_is_cached_until_the_file_changes(plugin, monkeypatch):
    file = plugin("")
    assert row().status == "ok"
    with monkeypatch.context() as patched:
        patched.setattr(subprocess, "run", lambda *words, **options: pytest.fail("a process"))
        assert row().status == "ok"
    file.write_text(SOUND + "import os; os.abort()")
    assert row().status == "BAD"


@pytest.mark.parametrize("exists", [True, False])
def test_packages_are_part_of_a_cached_success(plugin, tmp_path, monkeypatch, exists):
    """After a package came or went a plugin is tried again; their folder need not exist."""
    packages = tmp_path / "packages"
    if exists:
        packages.mkdir()
    monkeypatch.setattr(trial_import.sysconfig, "get_path", lambda name: str(packages))
    plugin("")
    assert row().status == "ok"
    (packages / "new-1.0.dist-info").mkdir(parents=True)
    trials = []
    original = subprocess.run
    monkeypatch.setattr(
        subprocess, "run", lambda *words, **options: trials.append(1) or original(*words, **options)
    )
    assert row().status == "ok" and trials == [1]


def test_a_cache_that_can_not_be_written_costs_the_trial_alone(plugin, tmp_path):
    plugin("")
    assert row().status == "ok"
    cache = tmp_path / "caches/rlcore/plugins"
    shutil.rmtree(cache)
    cache.write_text("no folder")
    assert row().status == "ok"


def test_a_slow_import_is_reported(plugin, monkeypatch):
    monkeypatch.setattr(registry, "SLOW_SECONDS", 0.2)
    plugin("import time; time.sleep(0.3)")
    found = row()
    assert found.status == "slow" and " s" in found.reason


def test_output_of_a_plugins_import_goes_to_stderr(plugin, capsys):
    plugin("print('hello')")
    assert row().status == "ok"
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", "hello\n")
