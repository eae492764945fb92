"""Assets are looked for before a run, each file of the tasks that are played."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from libero_cases import DRAWER, SOUP, needs_libero, small_config
from rlcore_env_libero import assets, plugin
from rlcore_env_libero.assets import assets_folder, missing_files, require_assets
from rlcore_env_libero.env import make_env
from rlcore_env_libero.installed import libero_folder
from rlcore_env_libero.problem import read_problem, task_file
from rlcore_env_libero.quiet import load_libero
from rlcore_env_libero.stand_ins.write import write_stand_ins

from rlcore.config.compose import compose
from rlcore.errors import AssetError

pytestmark = needs_libero


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder laid out as LIBERO's assets are."""
    load_libero(libero_folder())
    root = tmp_path / "assets"
    root.mkdir()
    write_stand_ins(root)
    return root


def _no_process(*_: object, **__: object) -> None:
    raise AssertionError("a process was started")


def test_no_assets_is_one_error_with_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subprocess, "Popen", _no_process)
    config = small_config(stand_ins=False, assets_path=str(tmp_path / "none"))
    with pytest.raises(AssetError) as caught:
        make_env(config, num_envs=1, rank=0, world_size=1, num_processes=1)
    # 7 objects, the scene, and its floor's and walls' textures
    assert f"10 file(s) missing in {tmp_path / 'none'}" in caught.value.message
    assert "hf download lerobot/libero-assets --repo-type dataset" in str(caught.value.hint)
    run = compose(
        [
            "env=libero_object",
            f"env.train.assets_path={tmp_path}/none",
            "env.eval.stand_ins=true",
        ],
        require=("env",),
    )
    rows = plugin.rlcore_doctor(run)
    assert [row["status"] for row in rows] == ["ok", "ok", "missing", "ok"]


def test_a_task_needs_its_own_files_only(folder: Path) -> None:
    require_assets(folder, [SOUP, DRAWER])
    milk = folder / "stable_hope_objects" / "milk" / "milk.xml"
    milk.unlink()
    assert missing_files(folder, [DRAWER]) == set()
    # where a file of that name would be is not known without it
    assert missing_files(folder, [SOUP]) == {"articulated_objects/milk.xml"}


def test_what_a_file_names_must_be_there_too(folder: Path) -> None:
    scene = folder / "scenes" / "libero_floor_base_style.xml"
    scene.write_text(scene.read_text().replace("light-gray-plaster.png", "gone.png"))
    assert missing_files(folder, [SOUP]) == {"textures/gone.png"}
    texture = folder / "textures" / "light-gray-floor-tile.png"
    texture.write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    assert missing_files(folder, [SOUP]) == {
        "textures/gone.png",
        "textures/light-gray-floor-tile.png",
    }


def test_assets_are_found_where_the_hub_keeps_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    monkeypatch.setattr(assets, "libero_folder", lambda: tmp_path / "libero")
    monkeypatch.delenv("HF_HOME", raising=False)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    assert assets_folder(None) == tmp_path / ".cache" / "libero" / "assets"
    snapshot = tmp_path / "hub" / "datasets--lerobot--libero-assets" / "snapshots" / "abc"
    (snapshot / "scenes").mkdir(parents=True)
    assert assets_folder(None) == snapshot
    own = tmp_path / ".cache" / "libero" / "assets"
    own.mkdir(parents=True)
    assert assets_folder(None) == snapshot  # LIBERO makes an empty folder before it downloads
    (own / "scenes").mkdir()
    assert assets_folder(None) == own
    assert assets_folder("mine") == Path("mine")


def test_a_task_file_is_read_as_libero_reads_it() -> None:
    from libero.libero.envs.bddl_utils import robosuite_parse_problem

    for task in (SOUP, DRAWER):
        file = task_file(libero_folder(), task)
        ours, theirs = read_problem(file), robosuite_parse_problem(str(file))
        assert ours.kind == theirs["problem_name"]
        for found, listed in ((ours.fixtures, "fixtures"), (ours.objects, "objects")):
            assert found == {
                name: category for category, names in theirs[listed].items() for name in names
            }


def test_doctor_takes_no_empty_or_partial_folder_for_the_assets(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    own = tmp_path / ".cache" / "libero" / "assets"
    own.mkdir(parents=True)
    row = plugin.rlcore_doctor(None)[-1]
    assert row["status"] == "ok" and row["detail"].startswith("not here; to get them: hf download")
    own.rmdir()
    folder.rename(own)
    row = plugin.rlcore_doctor(None)[-1]
    assert (row["status"], row["detail"]) == ("ok", str(own))
    (own / "turbosquid_objects" / "moka_pot" / "moka_pot.xml").unlink()
    row = plugin.rlcore_doctor(None)[-1]
    assert row["status"] == "missing" and "moka_pot.xml" in row["detail"]
    assert row["fix"].startswith("hf download lerobot/libero-assets")
