"""Which environment simulators run in where nobody names one."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path

import pytest
from internals import compose, load, to_yaml
from rlcore_simulation import known_interpreters, venvs
from rlcore_simulation.cli import venv as command
from rlcore_simulation.venvs import find_environment

from rlcore.cli.main import main
from rlcore.config.warning import ConfigWarning
from rlcore.contracts.specs import ComponentSpec
from rlcore.plugins.registry import load_plugins

SLIDER = ComponentSpec("env", "slider", "x:y", requirements=("acme-slider==1.0", "numpy"))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return tmp_path


def environment(folder: Path, env: str, packages: dict[str, str], *, age: int = 0) -> Path:
    """A virtual environment as `rlcore venv create` leaves it, `age` seconds ago, by the marks of
    its packages alone; of numpy there is a version too."""
    minor = sys.version_info[1]
    there = folder / f"lib/python3.{minor}/site-packages"
    there.mkdir(parents=True)
    (folder / "bin").mkdir()
    base = Path(sys.executable).resolve()
    (folder / "bin/python").symlink_to(base)
    (folder / venvs.CONFIG).write_text(f"home = {base.parent}\n")
    for name, version in packages.items():
        (there / f"{name}-{version}.dist-info").mkdir()
        facts = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        (there / f"{name}-{version}.dist-info/METADATA").write_text(facts)
    (there / "numpy.py").write_text(f"__version__ = {packages['numpy']!r}\n")
    stamp = folder / venvs.STAMP
    stamp.write_text(f'{{"env": "{env}", "requirements": []}}')
    os.utime(stamp, (10**9 - age, 10**9 - age))
    known_interpreters.note(folder)
    return folder


def slider(folder: Path, version: str = "1.0", *, age: int = 0) -> Path:
    return environment(folder, "slider", {"acme-slider": version, "numpy": "1.26.4"}, age=age)


def environment_and_warnings(spec: ComponentSpec) -> tuple[str | None, list[str]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = find_environment(spec)
    # a busy machine adds that it waits for an interpreter
    return found, [str(each.message) for each in caught if each.category is ConfigWarning]


def test_the_newest_environment_of_an_env_is_used_and_others_are_named(home: Path) -> None:
    assert environment_and_warnings(SLIDER) == (None, [])
    old = slider(home / "old", age=60)
    environment(home / "other", "robotwin", {"acme-slider": "1.0", "numpy": "1.26.4"})
    assert environment_and_warnings(SLIDER) == (str(old), [])  # nothing to say of the only one
    new = slider(home / "new")
    found, (warning,) = environment_and_warnings(SLIDER)
    assert found == str(new)
    assert str(new) in warning and str(old) in warning and "env.*.python=" in warning


def test_a_broken_or_unfinished_environment_is_skipped_with_a_warning(home: Path) -> None:
    """The newest lost its Python, the next has another version, one was not filled to its end;
    one was never finished, so that it is not on the list, but stands in the usual place."""
    good = slider(home / "good", age=90)
    half = slider(home / "half", age=60)
    (half / venvs.STAMP).write_text('{"env": "slider", "ours": true}')
    os.utime(half / venvs.STAMP, (10**9 - 60, 10**9 - 60))
    wrong = slider(home / "wrong", "0.9", age=30)
    gone = slider(home / "gone")
    (gone / "bin/python").unlink()
    usual = venvs.usual("slider")
    usual.mkdir(parents=True)
    (usual / venvs.STAMP).write_text('{"env": "slider", "ours": true}')
    found, skipped = environment_and_warnings(SLIDER)
    assert found == str(good)
    reasons = [(usual, ""), (gone, "bin/python"), (wrong, "acme-slider==1.0"), (half, "")]
    for warning, (folder, reason) in zip(skipped, reasons, strict=True):
        assert reason in warning and f"rlcore venv create slider {folder}" in warning


def test_rlcores_own_environment_is_used_where_it_has_what_an_env_needs(home: Path) -> None:
    environment(home / "made", "here", {"numpy": "1.26.4"})
    here = ComponentSpec("env", "here", "x:y", requirements=("numpy", "packaging"))
    assert environment_and_warnings(here) == (None, [])


def test_a_folder_that_was_not_made_here_is_not_looked_into(
    home: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of whoever the current folder is."""
    with monkeypatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(home / "another user"))
        slider(elsewhere / ".venv-slider")
    assert environment_and_warnings(SLIDER) == (None, [])


FITTING = {"numpy": "1.26.4", "setuptools": "80.0", "opencv-python": "4.11.0"}


def robotwin(folder: Path) -> Path:
    """All that RoboTwin's simulators need, by name."""
    wanted = load_plugins().get("env", "robotwin").spec.requirements
    pairs = [text.partition("==") for text in wanted]
    packages = {name: version or "1.0" for name, _, version in pairs if name.isidentifier()}
    packages |= {name.partition("<")[0]: "1.0" for name, _, version in pairs if not version}
    return environment(folder, "robotwin", packages | FITTING)


@pytest.mark.long
def test_the_environment_is_part_of_the_configuration_that_a_run_saves(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["env=robotwin_stack_blocks_two"]
    assert compose(words, require=("env",)).env.train.interpreter() is None
    made = robotwin(home / "made")
    config = compose(words, require=("env",))
    assert config.env.train.interpreter() == config.env.eval.interpreter() == str(made)
    (home / "config.yaml").write_text(to_yaml(config))
    robotwin(home / "later")
    os.utime(home / "later" / venvs.STAMP)
    assert load(home / "config.yaml").env.train.interpreter() == str(made)
    assert compose(words, require=("env",)).env.eval.interpreter() == str(home / "later")
    named = compose([*words, "env.eval.python=/opt/python"], require=("env",))
    assert named.env.eval.interpreter() == "/opt/python"
    main(["doctor", *words])
    lines = capsys.readouterr().out.splitlines()
    for side in ("train", "eval"):
        (line,) = [line for line in lines if f"env.{side}.python" in line]
        assert line.startswith("ok") and f"{home}/later/bin/python: python 3." in line


def test_an_environment_that_only_plans_must_be_named(home: Path) -> None:
    """ManiSkill's: its simulators run here, also on a GPU, which another interpreter can't."""
    environment(home / "made", "maniskill", {"numpy": "1.26.4"})
    config = compose(["env=maniskill"], require=("env",))
    assert config.env.train.interpreter() is None


def test_venv_create_prints_the_command_that_uses_it(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = robotwin(home / "made")
    spec = load_plugins().get("env", "robotwin").spec
    stamp = (made / venvs.STAMP).read_text().replace("[]", str([*spec.requirements]))
    (made / venvs.STAMP).write_text(stamp.replace("'", '"'))
    assert command.main(["create", "robotwin_place_shoe", str(made)]) == 0
    assert "rlcore train env=robotwin_place_shoe\n" in capsys.readouterr().out


def test_a_name_without_a_slash_is_looked_for_on_the_path(
    elsewhere: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that is not there is a folder here."""
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "python9").touch(mode=0o755)
    for named, meant in (
        ("python9", tmp_path / "python9"),
        ("./python9", elsewhere / "python9"),
        ("venv", elsewhere / "venv"),
    ):
        words = ["env=robotwin_stack_blocks_two", f"env.train.python={named}"]
        assert compose(words, require=("env",)).env.train.interpreter() == str(meant)
