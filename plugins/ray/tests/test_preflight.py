"""Places that Ray can't write to are named before it tries."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from rlcore_ray import preflight
from rlcore_ray.preflight import require_startable

from rlcore.contracts.errors import AssetError

LOCAL = "cluster.backend=local"
"""What every refusal offers."""


@pytest.fixture
def good(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.setattr(preflight, "SOCKET_PATH", 1000)  # pytest's own folders are long
    return {"RAY_TMPDIR": str(tmp_path / "tmp")}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file: nobody, root included, can make a folder in it."""
    file = tmp_path / "file"
    file.touch()
    return file


def test_writable_folders_are_taken(good, file):
    require_startable(good)
    require_startable({**good, "HOME": str(file)})  # the token that Ray asks for is made here


@pytest.mark.parametrize("name", ["RAY_TMPDIR", "TMPDIR"])
def test_a_temporary_folder_that_can_not_be_made_is_refused(refused, good, file, name):
    if name == "TMPDIR":
        if not sys.platform.startswith("linux"):
            pytest.skip("Ray reads it on Linux alone")
        del good["RAY_TMPDIR"]
    with refused(AssetError, f"{file}/ray", name, "export RAY_TMPDIR=", LOCAL):
        require_startable({**good, name: str(file)})


def test_a_read_only_shared_memory_is_refused(refused, good, tmp_path, monkeypatch):
    shared = tmp_path / "shm"
    shared.mkdir()
    monkeypatch.setattr(preflight, "SHARED_MEMORY", shared)
    true = preflight._unwritable
    monkeypatch.setattr(
        preflight,
        "_unwritable",
        lambda folder: "which is read-only" if folder == shared else true(folder),
    )
    with refused(AssetError, shared, "--shm-size", LOCAL):
        require_startable(good)


def test_a_folder_too_long_for_sockets_is_refused(refused, tmp_path, good, monkeypatch):
    monkeypatch.setattr(preflight, "SOCKET_PATH", 107)
    name = tmp_path / ("x" * 100)
    with refused(AssetError, name, LOCAL, text=False):  # counts its characters
        require_startable({**good, "RAY_TMPDIR": str(name)})
    assert not name.exists()
