"""The packages that another interpreter imports from this one."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from rlcore_simulation.module_links import link_modules

from rlcore.contracts.errors import ConfigError


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the path of modules."""
    (tmp_path / "site").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    return tmp_path / "site"


def write(folder: Path, *paths: str) -> None:
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(path)


@pytest.mark.parametrize(
    ("files", "modules", "linked"),
    [
        (["alone.py"], ["alone"], ["alone.py"]),
        # the whole package of a module
        (["whole/__init__.py", "whole/deep/sim.py"], ["whole.deep.sim"], ["whole"]),
        # of folders that distributions share, only the package
        (
            ["spread/mine/__init__.py", "spread/mine/sim.py", "spread/other/a.py"],
            ["spread.mine.sim", "spread.mine"],
            ["spread/mine"],
        ),
        (["shared/mine/a.py", "shared/other/b.py"], ["shared"], ["shared/mine", "shared/other"]),
        # a package whose author forgot the __init__
        (["bare/sim.py", "bare/sets.py"], ["bare.sim"], ["bare/sets.py", "bare/sim.py"]),
    ],
)
def test_the_outermost_package_of_a_module_is_linked(
    site: Path, tmp_path: Path, files: list[str], modules: list[str], linked: list[str]
) -> None:
    write(site, *files)
    folder = tmp_path / "links"
    folder.mkdir()
    link_modules(folder, modules)
    links = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*")}
    found = sorted(path for path, link in links.items() if link.is_symlink())
    assert found == sorted(["rlcore", "rlcore_simulation", *linked])
    for path in linked:
        assert links[path].resolve() == site / path


def test_a_package_that_is_not_there_or_in_an_archive_is_refused(
    refused, site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with zipfile.ZipFile(site / "sims.egg", "w") as egg:
        egg.writestr("zipped/__init__.py", "")
        egg.writestr("zipped_module.py", "")
    monkeypatch.syspath_prepend(str(site / "sims.egg"))
    for name in ("zipped", "zipped_module", "no_such_package"):
        with refused(ConfigError, name):
            link_modules(tmp_path, [name])
        (tmp_path / "rlcore").unlink()
        (tmp_path / "rlcore_simulation").unlink()
