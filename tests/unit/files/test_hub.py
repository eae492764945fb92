"""Where models and data sets are found by their names on a hub."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rlcore.files import hub

COMMITS = ("0123456789abcdef0123456789abcdef01234567", "89abcdef0123456789abcdef0123456789abcdef")


def fill(cache: Path, name: str, commit: str, ref: str = "main", kind: str = "model") -> Path:
    """Make a snapshot as `hf download NAME` leaves it in the cache."""
    folder = cache / f"{kind}s--{name.replace('/', '--')}"
    snapshot = folder / "snapshots" / commit
    snapshot.mkdir(parents=True)
    (folder / "refs").mkdir(exist_ok=True)
    (folder / "refs" / ref).write_text(commit)
    return snapshot


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    folder = tmp_path / "hub"
    monkeypatch.setenv("HF_HUB_CACHE", str(folder))
    return folder


def test_a_name_has_an_owner_and_a_name():
    for name in ("ORG/NAME", "gen-robot/openvla-7b-rlvla-warmup", "a/b.c"):
        assert hub.is_name(name)
    for path in ("NAME", "a/b/c", "/a/b", "./a", "../a", "~/a", "a/", "/a", ""):
        assert not hub.is_name(path)


def test_folders_of_the_working_folder_come_first(cache, elsewhere):
    """As it is written; where documents download it to; then what the cache has."""
    assert hub.find("ORG/NAME") is None
    snapshot = fill(cache, "ORG/NAME", COMMITS[0])
    assert hub.find("ORG/NAME") == snapshot
    (elsewhere / "NAME").mkdir()
    assert hub.find("ORG/NAME") == elsewhere / "NAME"
    (elsewhere / "ORG" / "NAME").mkdir(parents=True)
    assert hub.find("ORG/NAME") == elsewhere / "ORG" / "NAME"
    assert hub.find("ORG/OTHER") is None  # though ORG is a folder here, as a checkout may be


def test_the_cache_has_revisions(cache):
    first = fill(cache, "ORG/NAME", COMMITS[0])
    second = fill(cache, "ORG/NAME", COMMITS[1], ref="v2")
    assert hub.cached("ORG/NAME") == first
    assert hub.cached("ORG/NAME", "v2") == hub.cached("ORG/NAME", COMMITS[1]) == second
    assert hub.cached("ORG/NAME", "v3") is None
    assert hub.cached("ORG/OTHER") is None and hub.cached("/no/where") is None


def test_snapshots_of_a_data_set_are_ordered_newest_first(cache):
    """Each snapshot by the time of its folder; models of the same name are apart."""
    assert hub.snapshots("ORG/NAME", "dataset") == []
    first, second = (fill(cache, "ORG/NAME", commit, kind="dataset") for commit in COMMITS)
    for time, snapshot in ((2, first), (1, second)):
        os.utime(snapshot, (time, time))
    assert hub.snapshots("ORG/NAME", "dataset") == [first, second]
    assert hub.snapshots("ORG/NAME") == []


@pytest.mark.parametrize(
    ("variables", "place"),
    [
        ({}, ".cache/huggingface/hub"),
        ({"XDG_CACHE_HOME": "{}/xdg"}, "xdg/huggingface/hub"),
        ({"XDG_CACHE_HOME": "{}/xdg", "HF_HOME": "{}/hf"}, "hf/hub"),
        ({"HF_HOME": "{}/hf", "HUGGINGFACE_HUB_CACHE": "{}/old"}, "old"),
        ({"HF_HOME": "{}/hf", "HF_HUB_CACHE": "$HF_HOME/new"}, "hf/new"),
        ({"HF_HOME": "~/mine"}, "mine/hub"),
    ],
)
def test_the_cache_follows_the_variables_of_the_hub(tmp_path, monkeypatch, variables, place):
    for name in ("XDG_CACHE_HOME", "HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name, value in variables.items():
        monkeypatch.setenv(name, value.format(tmp_path))
    assert hub.cache() == tmp_path / place


def test_a_machine_without_the_hubs_package_has_none(cache, monkeypatch):
    fill(cache, "ORG/NAME", COMMITS[0])
    monkeypatch.setattr(hub, "find_spec", lambda name: None)
    assert hub.find("ORG/NAME") is None
