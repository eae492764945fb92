"""Environments for simulators: how they are made, when they are complete, how they are listed."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest
from rlcore_simulation import known_interpreters, plugin, venvs
from rlcore_simulation.cli import venv as command
from rlcore_simulation.interpreters import Interpreter, query_interpreter

from rlcore.config.compose import compose
from rlcore.contracts.errors import AssetError, ConfigError, PluginError
from rlcore.contracts.specs import ComponentSpec


def spec_of(*requirements: str, **facts: str) -> ComponentSpec:
    return ComponentSpec("env", "sliding", "x:y", requirements=requirements, **facts)


class Commands:
    """What would be run. Packages count as installed afterwards."""

    def __init__(self, folder: Path, twin: Path) -> None:
        self.ran: list[list[str]] = []
        self._folder, self._twin = folder, twin

    def __call__(self, command: list[str], *_: object) -> None:
        self.ran.append(list(command))
        if "venv" in command:
            self._folder.mkdir(exist_ok=True)
            (self._folder / "pyvenv.cfg").write_text("")
            (self._folder / "bin").symlink_to(self._twin / "bin")
            (self._folder / "lib").symlink_to(self._twin / "lib")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setattr(venvs, "_uv", lambda: None)
    return tmp_path


@pytest.fixture
def ran(home: Path, twin_venv: Path, monkeypatch: pytest.MonkeyPatch) -> Commands:
    commands = Commands(home / "venv", twin_venv)
    monkeypatch.setattr(venvs, "_run", commands)
    monkeypatch.setattr(venvs, "lacks", lambda folder, spec: [])
    return commands


def test_pip_or_uv_installs_the_requirements_and_those_without_dependencies_last(
    ran: Commands, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = spec_of("robot==1.4", "its-code==0.1 --no-deps", "numpy<2")
    folder = home / "venv"
    printed: list[str] = []
    venvs.make(spec, folder, say=printed.append)
    pip = [f"{folder}/bin/python", "-I", "-m", "pip", "install", "--quiet"]
    pip += ["--disable-pip-version-check"]
    assert ran.ran == [
        [sys.executable, "-I", "-m", "venv", str(folder)],
        [*pip, "robot==1.4", "numpy<2"],
        [*pip, "--no-deps", "its-code==0.1"],
    ]
    venvs.make(spec, folder, say=printed.append)  # complete: nothing is done
    assert len(ran.ran) == 3 and str(folder) in printed[-1]
    venvs.make(spec_of("robot==1.5"), folder, say=printed.append)  # another version is asked for
    assert ran.ran[3:] == [[*pip, "robot==1.5"]]
    assert known_interpreters.noted() == [str(folder)] and venvs.stamp(folder)["env"] == "sliding"
    monkeypatch.setattr(venvs, "_uv", lambda: "/bin/uv")
    venvs.make(spec_of("robot==1.6"), folder, say=printed.append)
    uv = ["/bin/uv", "pip", "install", "--quiet", "--python", f"{folder}/bin/python"]
    assert ran.ran[4:] == [[*uv, "robot==1.6"]]


def test_the_commands_are_printed_and_a_failing_one_is_named(
    refused, home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    false = str(shutil.which("false"))
    monkeypatch.setattr(venvs, "_uv", lambda: false)
    with refused(AssetError, home / "venv", text=False):  # names the file `false`
        venvs.make(spec_of("robot"), home / "venv")
    line = f"{false} venv --quiet --allow-existing --python {sys.executable} {home}/venv\n"
    assert capsys.readouterr().out == line


@pytest.mark.parametrize("error", [KeyboardInterrupt(), AssetError("no network")])
def test_an_interrupted_environment_is_removed(
    home: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    folder = home / "venv"

    def fails(*_: object) -> None:
        (folder / "bin").mkdir(parents=True)
        (folder / "pyvenv.cfg").write_text("")
        raise error

    monkeypatch.setattr(venvs, "_run", fails)
    with pytest.raises(type(error)):
        venvs.make(spec_of("robot"), folder)
    assert not folder.exists()


def environment_of(folder: Path, version: str, packages: str = "{}") -> Path:
    """An environment whose interpreter reports a version and packages, and can do nothing else."""
    (folder / "bin").mkdir(parents=True)
    (folder / "pyvenv.cfg").write_text("")
    answer = f"""{{"version": "{version}", "packages": {packages}}}"""
    script = f"""#!/bin/sh\ncase "$2" in *rlcore-look*) echo 'rlcore-look {answer}'; exit;; esac"""
    (folder / "bin" / "python").write_text(f"{script}\nexit 7\n")
    (folder / "bin" / "python").chmod(0o755)
    return folder


@pytest.mark.parametrize(
    ("requires", "python"), [("<3.13", None), (None, sys.executable), ("<3.13", sys.executable)]
)
def test_an_environment_that_exists_keeps_its_python(
    refused, home: Path, requires: str | None, python: str | None
) -> None:
    folder = environment_of(home / "venv", "3.13.77")
    before = sorted(folder.rglob("*"))
    with refused(ConfigError, "3.13.77", f"rm -r {folder}", text=False):  # and this Python's
        venvs.make(spec_of("robot", requires_python=requires), folder, python=python)
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize("inside", ["", "thesis.tex", "thesis.tex/venv"])
def test_a_folder_that_holds_something_else_is_left_alone(home: Path, inside: str) -> None:
    file = home / "thesis.tex"
    file.write_text("")
    with pytest.raises((ConfigError, AssetError)):
        venvs.make(spec_of("numpy"), home / inside, say=lambda _: None)
    assert file.read_text() == "" and list(home.iterdir()) == [file]


@pytest.mark.parametrize("python", ["nosuchpy", "false", "/nonexistent", "."])
def test_an_unusable_python_is_refused(refused, home: Path, python: str) -> None:
    with refused(AssetError, "sliding", python, text=False):  # and the Python of this machine
        venvs.make(spec_of("robot"), home / "venv", python=python)
    existing = environment_of(home / "existing", "3.11.7")
    with refused(AssetError, python, text=False):
        venvs.make(spec_of("robot"), existing, python=python)
    assert not (home / "venv").exists()


@pytest.mark.parametrize("python", [None, sys.executable])
def test_an_interpreter_that_the_env_does_not_take_is_refused(
    refused, home: Path, python: str | None
) -> None:
    with refused(AssetError, ">=3.99", "rlcore venv create sliding --python", text=False):
        venvs.make(spec_of("numpy", requires_python=">=3.99"), home / "venv", python=python)
    assert not (home / "venv").exists()


def test_an_environment_whose_interpreter_is_gone_is_to_be_made_anew(refused, home: Path) -> None:
    folder = home / "my venv"
    (folder / "bin").mkdir(parents=True)
    (folder / "pyvenv.cfg").write_text("")
    (folder / "bin" / "python").symlink_to("/no/such/python3.11")
    with refused(AssetError, "/no/such/python3.11", f"rm -r '{folder}'"):
        venvs.make(spec_of("robot"), folder, say=lambda _: None)


def test_an_env_without_requirements_is_refused(refused, home: Path) -> None:
    with refused(ConfigError, "sliding"):
        venvs.make(spec_of(), home / "venv")
    assert not (home / "venv").exists()


@pytest.mark.parametrize(("pip", "ours"), [(True, True), (True, False), (False, False)])
def test_an_installation_that_fails_is_refused_with_the_command(
    refused, home: Path, pip: bool, ours: bool
) -> None:
    folder = environment_of(home / "venv", "3.11.7", '{"pip": "24.0"}' if pip else "{}")
    if ours:
        (folder / venvs.STAMP).write_text('{"env": "sliding", "ours": true}')
    again = f"rlcore venv create sliding {folder}"
    if not pip:
        words = [f"{folder}/bin/python -m ensurepip", again]
    else:
        words = ["no-such-robot", again if ours else "rlcore venv create sliding"]
    with refused(AssetError, *words, text=False):
        venvs.make(spec_of("no-such-robot"), folder, say=lambda _: None)
    assert "requirements" not in venvs.stamp(folder) and known_interpreters.noted() == []


def wheel(folder: Path, name: str, number: str, *asks: str) -> None:
    """A package of nothing, as an index has it."""
    info = f"{name}-{number}.dist-info"
    metadata = [f"Name: {name}", f"Version: {number}", *(f"Requires-Dist: {each}" for each in asks)]
    with zipfile.ZipFile(folder / f"{name}-{number}-py3-none-any.whl", "w") as file:
        file.writestr(f"{info}/METADATA", "\n".join(["Metadata-Version: 2.1", *metadata]))
        file.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any"
        )
        file.writestr(f"{info}/RECORD", "")


@pytest.mark.long
def test_packages_of_an_environment_that_is_the_users_keep_their_versions(
    refused, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A robot that asks for another gauge than the user's is refused; one that does not is not."""
    pip = pytest.importorskip("pip")
    index, folder = home / "index", home / "venv"
    index.mkdir()
    wheel(index, "gauge", "1.26.4")
    wheel(index, "gauge", "2.5.0")
    wheel(index, "robot", "1.0", "gauge")
    wheel(index, "robot", "2.0", "gauge>=2")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "pip").symlink_to(Path(pip.__file__).parent)
    metadata = packages / f"pip-{pip.__version__}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Name: pip\nVersion: {pip.__version__}\n")
    with zipfile.ZipFile(index / "gauge-1.26.4-py3-none-any.whl") as file:
        file.extractall(packages)
    monkeypatch.setattr(venvs, "lacks", lambda folder, spec: [])
    with refused(AssetError, "robot==2.0", folder, text=False):
        venvs.make(spec_of("robot==2.0"), folder)
    query_interpreter.cache_clear()
    there = query_interpreter(str(folder)).packages
    assert there["gauge"] == "1.26.4" and "robot" not in there
    venvs.make(spec_of("robot>=1"), folder)
    query_interpreter.cache_clear()
    there = query_interpreter(str(folder)).packages
    assert (there["gauge"], there["robot"]) == ("1.26.4", "1.0")
    assert venvs.stamp(folder)["ours"] is False  # complete now, and still the user's


# -- the command --------------------------------------------------------------------------------


def test_ls_lists_environments_that_are_there(
    home: Path, twin_venv: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(["ls"]) == 0
    assert "rlcore venv create NAME" in capsys.readouterr().out
    known_interpreters.note(twin_venv)
    known_interpreters.note(twin_venv / "bin" / "python")  # the same
    known_interpreters.note(home / "gone")
    assert command.main(["ls"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith(f"{twin_venv}: Python 3.") and f"numpy {version('numpy')}" in line
    (row,) = [row for row in plugin.rlcore_doctor(None) if row["name"] == "environment"]
    assert (row["status"], row["detail"]) == ("ok", line.partition(", ")[0])


def test_ls_and_doctor_name_what_an_environment_lacks(
    home: Path, twin_venv: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As runs name it. It was made for RoboTwin, and has other versions by now."""
    folder = home / "venv"
    (folder / "bin").mkdir(parents=True)
    base = Path(sys.executable).resolve()
    (folder / "bin/python").symlink_to(base)
    (folder / "pyvenv.cfg").write_text(f"home = {base.parent}\n")
    (folder / "lib").symlink_to(twin_venv / "lib")
    (folder / venvs.STAMP).write_text('{"env": "robotwin"}')
    known_interpreters.note(folder / "bin/python")
    assert command.main(["ls"]) == 0
    title, lacks = capsys.readouterr().out.splitlines()
    assert title.startswith(f"{folder}/bin/python for robotwin: Python 3.")
    assert lacks.startswith("  lacks ") and "mplib==0.2.1" in lacks
    assert lacks.endswith(f": rlcore venv create robotwin {folder}")
    (row,) = [row for row in plugin.rlcore_doctor(None) if row["name"] == "environment"]
    assert (row["name"], row["status"]) == ("environment", "warning")  # no run may need it
    assert row["detail"] == f"{title}; {lacks.strip().rpartition(': ')[0]}"
    assert row["fix"] == f"rlcore venv create robotwin {folder}"
    run = compose(["env=toy"], require=("env",))
    assert plugin.rlcore_doctor(run) == []  # a run has rows of its own ones only


def test_an_option_of_an_env_means_its_env_and_the_folder_may_have_blanks(
    refused,
    home: Path,
    twin_venv: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    made: list[tuple[str, Path]] = []

    def make(spec: ComponentSpec, folder: Path, *, python: str | None) -> Interpreter:
        made.append((spec.name, folder))
        return query_interpreter(str(twin_venv))

    monkeypatch.setattr(command, "make", make)
    assert command.main(["create", "metaworld_45", str(home / "my venv")]) == 0
    assert command.main(["create", "metaworld_45"]) == 0
    assert made == [("metaworld", home / "my venv"), ("metaworld", venvs.usual("metaworld"))]
    use = f"'env.train.python={home}/my venv' 'env.eval.python={home}/my venv'"
    assert f"use it: rlcore train env=metaworld_45 {use}\n" in capsys.readouterr().out
    with refused(PluginError, "metaworld_46", text=False):
        command.main(["create", "metaworld_46"])


@pytest.mark.parametrize(
    ("words", "wrong"), [(["create"], "create"), (["remove"], "remove"), (["ls", "x"], "ls")]
)
def test_a_wrong_word_is_refused(refused, words: list[str], wrong: str) -> None:
    with refused(ConfigError, wrong, text=False):  # argparse words one of them
        command.main(words)
