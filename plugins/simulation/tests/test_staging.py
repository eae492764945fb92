"""What another interpreter is handed: whole packages as files, whatever they are and whoever else
copies them."""

from __future__ import annotations

import errno
import os
import shutil
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
from rlcore_simulation import staging
from rlcore_simulation.staging import staged

from rlcore.contracts.errors import AssetError, ConfigError


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the path of modules; the copies are kept beside it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "site").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    return tmp_path / "site"


def write(folder: Path, *paths: str) -> None:
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(path)


def of_strangers(folder: Path) -> list[str]:
    paths = (path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    return sorted(path for path in paths if not path.startswith("rlcore"))


def test_of_folders_that_distributions_share_only_the_package_is_taken(site: Path) -> None:
    write(
        site, "shared_one/mine/__init__.py", "shared_one/mine/deep/sim.py", "shared_one/other/a.py"
    )
    mine = ["shared_one/mine/__init__.py", "shared_one/mine/deep/sim.py"]
    assert of_strangers(staged(["shared_one.mine.deep.sim"])) == mine
    assert of_strangers(staged(["shared_one"])) == [*mine, "shared_one/other/a.py"]


def test_a_package_whose_author_forgot_the_init_is_taken_whole(site: Path) -> None:
    write(site, "forgotten/sim.py", "forgotten/settings.py")
    both = ["forgotten/settings.py", "forgotten/sim.py"]
    assert of_strangers(staged(["forgotten.sim"])) == both


def test_links_are_followed_and_a_link_back_ends(site: Path, tmp_path: Path) -> None:
    write(site, "linked/__init__.py", "linked/__pycache__/x.pyc")
    write(tmp_path, "assets/scene.xml")
    (site / "linked" / "assets").symlink_to(tmp_path / "assets")
    (site / "linked" / "again").symlink_to(site / "linked")
    (site / "linked" / "nothing").symlink_to(site / "no such file")
    assert of_strangers(staged(["linked"])) == ["linked/__init__.py", "linked/assets/scene.xml"]


def test_an_archive_is_refused(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with zipfile.ZipFile(site / "sims.egg", "w") as egg:
        egg.writestr("zipped/__init__.py", "")
        egg.writestr("zipped_module.py", "")
    monkeypatch.syspath_prepend(str(site / "sims.egg"))
    for name in ("zipped", "zipped_module"):
        with pytest.raises(ConfigError, match=rf"{name!r} can't be handed .*sims.egg/{name}"):
            staged([name])


def test_what_is_compiled_must_be_so_for_that_python(site: Path) -> None:
    write(site, "fast/__init__.py", "fast/core.cpython-311-x86_64-linux-gnu.so", "fast/any.abi3.so")
    staged(["fast"], "3.11.9")
    with pytest.raises(
        ConfigError, match=r"^fast/core is compiled for Python 311 only, .* 3.10.13"
    ):
        staged(["fast"], "3.10.13")
    write(site, "fast/core.cpython-310-x86_64-linux-gnu.so")
    staged(["fast"], "3.10.13")
    write(site, "slow/__init__.py", "slow/core.cpython-311-x86_64-linux-gnu.so", "slow/core.py")
    staged(["slow"], "3.13.0")


def test_who_copies_at_once_gets_one_copy_and_takes_it_from_nobody(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each finds nothing there, writes its own, and all but one come late."""
    write(site, "common/__init__.py")
    make = staging._make
    everyone = Barrier(3, timeout=60)

    def together(*arguments: object) -> bool:
        everyone.wait()
        made = make(*arguments)  # type: ignore[arg-type]
        inodes.append(arguments[0].stat().st_ino)  # type: ignore[attr-defined]
        return made

    inodes: list[int] = []
    monkeypatch.setattr(staging, "_make", together)
    with ThreadPoolExecutor(3) as pool:
        folders = {future.result() for future in [pool.submit(staged, ["common"]) for _ in "123"]}
    assert len(folders) == 1 and len(set(inodes)) == 1 and len(inodes) == 3
    assert [each.name for each in folders.pop().parent.iterdir()].count("common") == 0
    assert not list((site.parent / "cache").rglob(".making-*"))


def test_what_changes_while_it_is_copied_is_copied_again(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(site, "moving/__init__.py")
    copy, changes = shutil.copyfile, ["second", "third"]

    def edited(file: Path, place: Path) -> None:
        if file.parent.name == "moving" and changes:
            file.write_text(changes.pop(0))
        copy(file, place)

    monkeypatch.setattr(shutil, "copyfile", edited)
    folder = staged(["moving"])
    assert (folder / "moving/__init__.py").read_text() == "third"
    changes += ["a", "b", "c", "d"]
    (site / "moving/__init__.py").write_text("new")
    with pytest.raises(AssetError, match="the code of moving changes while it is copied"):
        staged(["moving"])
    assert [each.name for each in folder.parent.iterdir()] == [folder.name]


def test_no_room_is_one_error_and_leaves_nothing(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(file: Path, place: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(file), None, str(place))

    write(site, "large/__init__.py")
    monkeypatch.setattr(shutil, "copyfile", full)
    with pytest.raises(AssetError, match="No space left on device") as caught:
        staged(["large"])
    assert "XDG_CACHE_HOME" in str(caught.value.hint)
    assert list((site.parent / "cache/rlcore/staged").iterdir()) == []
