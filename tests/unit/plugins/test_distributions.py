"""Metadata of installed distributions, compared with importlib.metadata."""

from __future__ import annotations

import os
import sys
from importlib import metadata

import pytest

from rlcore.plugins.distributions import folders, headers, normal, requires
from rlcore.plugins.entry_points import GROUP, installed
from rlcore.plugins.registry import Registry


def test_metadata_of_all_that_is_installed_equals_that_of_importlib():
    names = {normal(each.metadata["Name"] or "") for each in metadata.distributions()}
    assert "rlcore" in names
    for name in names - {""}:
        ours = dict(headers(folders()[name]))
        theirs = metadata.distribution(name)
        assert (ours["Name"], ours["Version"]) == (theirs.metadata["Name"], theirs.version)
        assert requires(name) == (theirs.metadata.get_all("Requires-Dist") or [])
    points = {
        (p.name, p.value, p.dist.name, p.dist.version) for p in metadata.entry_points(group=GROUP)
    }
    assert {(p.name, p.value, p.distribution, p.version) for p in installed({})} == points


@pytest.fixture
def write(tmp_path, monkeypatch):
    """`write(folder, text)` makes a distribution's folder with entry points, on a path of two."""
    for place in ("second", "first"):
        monkeypatch.syspath_prepend(str(tmp_path / place))

    def make(folder: str, text: str, name: str = "A-Maze") -> None:
        path = tmp_path / folder
        path.mkdir(parents=True)
        about = "PKG-INFO" if folder.endswith(".egg-info") else "METADATA"
        (path / about).write_text(f"Name: {name}\nVersion: 2\n\nName: of the description\n")
        (path / "entry_points.txt").write_text(text)

    return make


def found() -> list[tuple[str, str, str]]:
    return [(p.name, p.value, p.version) for p in installed({}) if p.distribution == "A-Maze"]


def test_a_section_ends_where_the_next_begins(write):
    write(
        "first/A_Maze-2.dist-info",
        "[console_scripts]\nmaze = maze:main\n\n[rlcore.plugins]\n# the first\na.b-c=maze.one\n\n"
        " two  =  maze.two : Plugin.here  [more]\n[rlcore.plugins.more]\nno = maze.no\n",
    )
    assert found() == [("a.b-c", "maze.one", "2"), ("two", "maze.two:Plugin.here", "2")]


def test_the_first_of_a_name_on_the_path_counts(write):
    write("second/a.maze-1.dist-info", "[rlcore.plugins]\nold = maze\n")
    write("first/A_Maze.egg-info", "[console_scripts]\nmaze = maze:main\n")
    assert found() == []


def test_a_distribution_installed_meanwhile_is_found(write, tmp_path):
    write("second/another-1.dist-info", "", name="another")
    assert found() == []
    write("second/A_Maze-2.dist-info", "[rlcore.plugins]\none = maze\n")
    os.utime(tmp_path / "second", ns=(0, 0))  # else a clock of few ticks might show no change
    assert found() == [("one", "maze", "2")]


def test_a_plugin_may_be_an_object_of_a_module(write, tmp_path):
    write("first/A_Maze.egg-info", "[rlcore.plugins]\nmaze = a_maze_of_objects:Maze.plugin\n")
    source = "class Maze:\n    class plugin:\n        RLCORE_API = (0, 1)\n"
    (tmp_path / "first/a_maze_of_objects.py").write_text(source)
    (row,) = [row for row in Registry.load(environ={}).rows() if row.distribution == "A-Maze"]
    assert (row.status, row.reason) == ("ok", "")
    del sys.modules["a_maze_of_objects"]
