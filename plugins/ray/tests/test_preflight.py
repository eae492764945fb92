"""Places that Ray can't write to are named before it tries."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from rlcore_ray import preflight
from rlcore_ray.preflight import require_startable

from rlcore.contracts.errors import AssetError


def refused(**environ: str) -> AssetError:
    with pytest.raises(AssetError) as caught:
        require_startable(environ)
    assert "cluster.backend=local" in str(caught.value)
    return caught.value


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


def test_all_is_well(good, file):
    require_startable(good)
    require_startable({**good, "HOME": str(file)})  # the token that Ray asks for is made here


@pytest.mark.parametrize("name", ["RAY_TMPDIR", "TMPDIR"])
def test_a_temporary_folder_that_can_not_be_made(good, file, name):
    if name == "TMPDIR":
        if not sys.platform.startswith("linux"):
            pytest.skip("Ray reads it on Linux alone")
        del good["RAY_TMPDIR"]
    error = refused(**{**good, name: str(file)})
    assert f"{file}/ray ({name}), which can't be written to: Not a directory" in error.message
    assert "export RAY_TMPDIR=FOLDER" in str(error.hint)


def test_a_shared_memory_that_can_not_be_written_to(good, tmp_path, monkeypatch):
    shared = tmp_path / "shm"
    shared.mkdir()
    monkeypatch.setattr(preflight, "SHARED_MEMORY", shared)
    true = preflight._unwritable
    monkeypatch.setattr(
        preflight,
        "_unwritable",
        lambda folder: "which is read-only" if folder == shared else true(folder),
    )
    error = refused(**good)
    assert f"object store is in {shared}, which is read-only" in error.message
    assert "--shm-size" in str(error.hint)


def test_a_folder_too_long_for_sockets(tmp_path, good, monkeypatch):
    monkeypatch.setattr(preflight, "SOCKET_PATH", 107)
    name = tmp_path / ("x" * 100)
    error = refused(**{**good, "RAY_TMPDIR": str(name)})
    assert "sockets have room for folders of " in error.message
    assert not name.exists()
