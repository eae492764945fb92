"""Targets and configuration folders of plugins are checked from files, without an import."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlcore.checks.plugin_files import configuration_faults, target_fault

SOURCES = {
    "maze/__init__.py": "",
    "maze/env.py": "from os.path import join as joined\ndef make(): ...\nraise SystemExit",
    "maze/stars.py": "from maze.env import *\n",
    "maze/lazy.py": "def __getattr__(name): ...\n",
    "maze/broken.py": "def make(\n",
    "maze/built.cpython-311.so": "",
    "maze/namespace/env.py": "",
}


@pytest.fixture
def maze(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, source in SOURCES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path / "maze"


@pytest.mark.parametrize(
    ("target", "fault"),
    [
        ("maze.env:make", ""),
        ("maze.env:joined", ""),
        ("maze.stars:anything", ""),
        ("maze.lazy:anything", ""),
        ("maze.built:make", ""),
        ("maze.namespace:make", ""),
        ("json:loads", ""),
        ("sys:exit", ""),  # built in: there is no source
        ("mazes.env:make", "no module mazes"),
        ("maze.envs:make", "no module maze.envs"),
        ("maze.env:mak", "'make'"),
        ("maze.broken:make", "broken.py"),
    ],
)
def test_a_missing_target_is_found_without_an_import(maze, target, fault):
    found = target_fault(target)
    assert fault in found and bool(fault) == bool(found)


def test_an_unusable_configuration_folder_is_named(maze):
    (maze / "conf").mkdir()
    assert list(configuration_faults("maze", "pkg://maze.conf")) == []
    (maze / "conf/env.yaml").write_text("a: [")
    for folder, name in (
        ("pkg://maze.conf", "env.yaml"),
        (str(maze / "nowhere"), "nowhere"),
        ("pkg://maze.nowhere", "maze.nowhere"),
    ):
        (fault,) = configuration_faults("maze", folder)
        assert name in fault
