"""Environments for simulators: how they are made, when they are complete, who lists them."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path

import pytest
from rlcore_simulation import interpreters, known_interpreters, plugin, venvs
from rlcore_simulation.cli import venv as command
from rlcore_simulation.interpreters import Interpreter, look

from rlcore.config.compose import compose
from rlcore.contracts.errors import AssetError, ConfigError, PluginError
from rlcore.contracts.specs import ComponentSpec


def spec_of(*requirements: str, **facts: str) -> ComponentSpec:
    return ComponentSpec("env", "sliding", "x:y", requirements=requirements, **facts)


class Commands:
    """What would be run. Packages are said to be installed afterwards."""

    def __init__(self, folder: Path, twin: Path, code: int = 0) -> None:
        self.ran: list[list[str]] = []
        self._folder, self._twin, self._code = folder, twin, code

    def __call__(self, command: list[str], failed: str, hint: str | None = None) -> None:
        self.ran.append(list(command))
        if "venv" in command:
            (self._folder / "pyvenv.cfg").write_text("")
            (self._folder / "bin").symlink_to(self._twin / "bin")
            (self._folder / "lib").symlink_to(self._twin / "lib")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


@pytest.fixture
def ran(home: Path, twin_venv: Path, monkeypatch: pytest.MonkeyPatch) -> Commands:
    commands = Commands(home / "venv", twin_venv)
    monkeypatch.setattr(venvs, "_run", commands)
    monkeypatch.setattr(venvs, "_uv", lambda: None)
    monkeypatch.setattr(venvs, "lacks", lambda folder, spec: [])
    monkeypatch.setattr(venvs.interpreters, "look", lru_cache(lambda path: path))
    return commands


def test_pip_installs_what_the_plugin_states_and_what_stands_alone_last(
    ran: Commands, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = spec_of("robot==1.4", "its-code==0.1 --no-deps", "numpy<2")
    folder, said = home / "venv", list[str]()
    venvs.make(spec, folder, say=said.append)
    options = ("install", "--quiet", "--disable-pip-version-check")
    pip = interpreters.command("pip", *options, python=f"{folder}/bin/python")
    assert ran.ran == [
        interpreters.command("venv", str(folder), python=sys.executable),
        [*pip, "robot==1.4", "numpy<2"],
        [*pip, "--no-deps", "its-code==0.1"],
    ]
    venvs.make(spec, folder, say=said.append)  # complete: nothing is done
    assert len(ran.ran) == 3 and said[-2:] == [
        f"{folder} is complete after {venvs.stamp(folder)['seconds']} s", f"{folder} is complete",
    ]  # fmt: skip
    venvs.make(spec_of("robot==1.5"), folder, say=said.append)  # another version is asked for
    assert ran.ran[3:] == [[*pip, "robot==1.5"]]
    assert known_interpreters.noted() == [str(folder)] and venvs.stamp(folder)["env"] == "sliding"
    monkeypatch.setattr(venvs, "_uv", lambda: "/bin/uv")
    venvs.make(spec_of("robot==1.6"), folder, say=said.append)
    uv = ["/bin/uv", "pip", "install", "--quiet", "--python", f"{folder}/bin/python"]
    assert ran.ran[4:] == [[*uv, "robot==1.6"]]


@pytest.mark.parametrize("left", [(), ("pyvenv.cfg",), ("pyvenv.cfg", "bin/python")])
def test_one_whose_making_was_interrupted_is_made_anew(
    ran: Commands, home: Path, monkeypatch: pytest.MonkeyPatch, left: tuple[str, ...]
) -> None:
    """What `python -m venv` had written by then: no pip as yet."""
    folder, said = home / "venv", list[str]()

    def interrupted(*_: object) -> None:
        for name in left:
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text("")
        raise KeyboardInterrupt

    monkeypatch.setattr(venvs.interpreters, "version_of", lambda python: "3.11.7")
    monkeypatch.setattr(interpreters, "imports", lambda python, module: True)
    monkeypatch.setattr(venvs, "_run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        venvs.make(spec_of("robot"), folder, say=said.append)
    (folder / "notes.txt").write_text("mine")
    monkeypatch.setattr(venvs, "_run", ran)
    venvs.make(spec_of("robot"), folder, say=said.append)
    assert (folder / "notes.txt").read_text() == "mine"
    assert [command[3] for command in ran.ran] == ["venv", "pip"]
    assert f"{folder} was interrupted as it was made: making it anew" in said
    assert venvs.stamp(folder)["env"] == "sliding" and not (folder / venvs.BEGUN).exists()


def test_one_that_could_not_be_begun_leaves_nothing(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever makes an environment in that folder by hand keeps it."""
    folder = home / "venv"

    def fails(*_: object) -> None:
        (folder / "bin").mkdir()
        (folder / "bin" / "python").symlink_to(home / "nowhere")
        raise AssetError("no network")

    monkeypatch.setattr(venvs.interpreters, "version_of", lambda python: "3.11.7")
    monkeypatch.setattr(interpreters, "imports", lambda python, module: True)
    monkeypatch.setattr(venvs, "_run", fails)
    with pytest.raises(AssetError, match="no network"):
        venvs.make(spec_of("robot"), folder)
    assert list(folder.iterdir()) == []


def test_an_environment_that_is_there_keeps_its_python(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, versions = home / "venv", {"venv": "3.13.0", "python3.10": "3.10.2"}
    folder.mkdir()
    (folder / "pyvenv.cfg").write_text("")
    monkeypatch.setattr(
        venvs.interpreters, "version_of", lambda python: versions[Path(python).name]
    )
    monkeypatch.setattr(venvs, "_install", lambda *_: pytest.fail("nothing is to be installed"))
    with pytest.raises(ConfigError) as caught:
        venvs.make(spec_of("robot", requires_python="<3.13"), folder)
    assert caught.value.message == (
        f"{folder} has Python 3.13.0, and the simulators of sliding need Python <3.13"
    )
    assert caught.value.hint == f"rm -r {folder}, then rlcore venv create sliding {folder}"
    with pytest.raises(ConfigError) as caught:
        venvs.make(spec_of("robot"), folder, python="python3.10")
    assert caught.value.message == (
        f"--python is Python 3.10.2, but {folder} is there already, with Python 3.13.0"
    )
    again = f"rlcore venv create sliding {folder} --python python3.10"
    assert caught.value.hint == f"rm -r {folder} && {again}"


def test_a_folder_that_holds_something_else_is_left_alone(home: Path) -> None:
    file = home / "thesis.tex"
    file.write_text("")
    for folder, why in (
        (home, "it holds something else"),
        (file, f"{file} is a file"),
        (file / "inside" / "it", f"{file} is a file"),
    ):
        with pytest.raises(ConfigError) as caught:
            venvs.make(spec_of("numpy"), folder)
        said = f"{folder} must be a new folder or a virtual environment, but {why}"
        assert caught.value.message == said
    assert file.read_text() == "" and list(home.iterdir()) == [file]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "--python must be an interpreter, as a path or a name on PATH, got 'nosuchpy'"),
        ("exit 3", "--python: {path} is no Python interpreter: it ends with code 3"),
        (
            """case "$2" in *"import ensurepip") exit 1;; esac\nexec """
            f"""{sys.executable} "$@" """,
            "{folder} could not be made: {path} lacks its module ensurepip",
        ),
    ],
)
def test_a_python_that_can_not_make_one_is_named_with_the_next_command(
    home: Path, monkeypatch: pytest.MonkeyPatch, text: str | None, said: str
) -> None:
    monkeypatch.setattr(venvs, "_uv", lambda: None)
    folder, path = home / "venv", home / "python"
    if text is not None:
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
    with pytest.raises((AssetError, ConfigError)) as caught:
        venvs.make(spec_of("robot"), folder, python=str(path) if text else "nosuchpy")
    assert caught.value.message == said.format(path=path, folder=folder)
    again = f"rlcore venv create sliding {folder}"
    debian = f"apt-get install python3-venv, or pip install uv; then {again}"
    assert caught.value.hint == (debian if "ensurepip" in said else f"{again} --python PATH")
    assert not folder.exists()


def test_a_folder_that_has_no_interpreter_is_named_as_it_was_given(home: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        venvs.make(spec_of("robot"), home / "venv", python=str(home))
    assert caught.value.message.endswith(f"as a path or a name on PATH, got '{home}'")


def test_an_environment_whose_interpreter_is_gone_is_to_be_made_anew(home: Path) -> None:
    folder = home / "my venv"
    (folder / "bin").mkdir(parents=True)
    (folder / "pyvenv.cfg").write_text("")
    (folder / "bin" / "python").symlink_to("/no/such/python3.11")
    with pytest.raises(AssetError) as caught:
        venvs.make(spec_of("robot"), folder, say=lambda _: None)
    assert caught.value.message == f"{folder} has no bin/python that works"
    again = f"rlcore venv create sliding '{folder}'"
    assert caught.value.hint == f"rm -r '{folder}' && {again}"


def test_an_env_that_states_nothing_is_named(home: Path) -> None:
    with pytest.raises(ConfigError, match="env 'sliding' does not say what its simulators need"):
        venvs.make(spec_of(), home / "venv")
    assert not (home / "venv").exists()


def test_a_python_that_is_not_here_is_asked_for(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(venvs.shutil, "which", lambda name: None)
    with pytest.raises(AssetError) as caught:
        venvs.make(spec_of("numpy", requires_python=">=3.99"), home / "venv")
    assert "env 'sliding' needs Python >=3.99 for its simulators" in caught.value.message
    assert f"rlcore venv create sliding {home / 'venv'} --python PATH" in str(caught.value.hint)


@pytest.mark.long
def test_an_interpreter_that_the_env_does_not_take_is_refused_before_anything_is_made(
    home: Path,
) -> None:
    other = home / "python3.8"
    other.write_text("""#!/bin/sh\necho 'rlcore-look {"version": [3, 8, 18]}'\n""")
    other.chmod(0o755)
    made = f"rlcore venv create sliding {home / 'venv'}"
    for wanted, given, hint in (
        ("<3.9", sys.executable, f"{made} --python PATH"),
        (">=3.10", str(other), f"{made} makes it with {sys.executable}"),  # one is here
    ):
        spec = spec_of("numpy", requires_python=wanted)
        with pytest.raises(ConfigError, match=f"--python must be Python {wanted}.*got ") as caught:
            venvs.make(spec, home / "venv", python=given)
        assert caught.value.hint == hint
        assert not (home / "venv").exists()


@pytest.mark.parametrize(("pip", "ours"), [(True, True), (True, False), (False, False)])
def test_what_can_not_be_installed_is_named(
    home: Path, monkeypatch: pytest.MonkeyPatch, pip: bool, ours: bool
) -> None:
    monkeypatch.setattr(venvs, "_uv", lambda: None)
    folder = home / "venv"
    folder.mkdir()
    (folder / "pyvenv.cfg").write_text("")
    (folder / "bin").mkdir()
    (folder / "bin" / "python").write_text(
        f"""#!/bin/sh\ncase "$2" in *"import pip") exit {0 if pip else 1};;\n*rlcore-look*)"""
        """ echo 'rlcore-look {"version": [3, 11, 7], "packages": {}}'; exit;; esac\nexit 7\n"""
    )
    if ours:
        (folder / venvs.STAMP).write_text('{"env": "sliding", "ours": true}')
    (folder / "bin" / "python").chmod(0o755)
    with pytest.raises(AssetError) as caught:
        venvs.make(spec_of("no-such-robot"), folder, say=lambda _: None)
    again = f"rlcore venv create sliding {folder}"
    if pip:
        assert "no-such-robot could not be installed" in caught.value.message
        stays = f"stays in {folder}, and the same command goes on with it: {again}"
        own = "packages keep their versions. One of its own: rlcore venv create sliding"
        assert str(caught.value.hint).endswith(stays if ours else own)
    else:
        assert caught.value.message.startswith(f"{folder} has no pip")
        assert f"{folder}/bin/python -m ensurepip, or pip install uv; then {again}" == (
            caught.value.hint
        )
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
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A robot that asks for another numpy than the user's is refused; one that does not is not."""
    pip = pytest.importorskip("pip")
    index, folder = home / "index", home / "venv"
    index.mkdir()
    wheel(index, "numpy", "1.26.4")
    wheel(index, "numpy", "2.5.0")
    wheel(index, "robot", "1.0", "numpy")
    wheel(index, "robot", "2.0", "numpy>=2")
    monkeypatch.setattr(venvs, "_uv", lambda: None)
    monkeypatch.setattr(venvs.interpreters, "look", lru_cache(interpreters.packages_of))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    python = str(folder / "bin" / "python")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "pip").symlink_to(Path(pip.__file__).parent)
    with zipfile.ZipFile(index / "numpy-1.26.4-py3-none-any.whl") as file:
        file.extractall(packages)
    monkeypatch.setattr(venvs, "lacks", lambda folder, spec: [])
    with pytest.raises(AssetError, match=r"robot==2\.0 could not be installed"):
        venvs.make(spec_of("robot==2.0"), folder)
    there = interpreters.packages_of(python)
    assert there["numpy"] == "1.26.4" and "robot" not in there
    venvs.make(spec_of("robot>=1"), folder)
    there = interpreters.packages_of(python)
    assert (there["numpy"], there["robot"]) == ("1.26.4", "1.0")
    assert venvs.stamp(folder)["ours"] is False  # complete now, and still the user's


@pytest.mark.parametrize("mark", [venvs.BEGUN, venvs.CONFIG])
def test_a_wrong_python_is_refused_before_anything_is_removed(home: Path, mark: str) -> None:
    folder = home / "venv"
    (folder / "bin").mkdir(parents=True)
    (folder / mark).write_text("")
    (folder / "bin" / "python").symlink_to(sys.executable)
    (folder / "notes.txt").write_text("mine")
    before = sorted(folder.rglob("*"))
    with pytest.raises(ConfigError, match=r"--python must be an interpreter.*got '/nonexist'"):
        venvs.make(spec_of("robot"), folder, python="/nonexist")
    with pytest.raises(AssetError, match=r"--python: .* is no Python interpreter"):
        venvs.make(spec_of("robot"), folder, python=shutil.which("false"))
    assert sorted(folder.rglob("*")) == before


# -- the command --------------------------------------------------------------------------------


def test_environments_are_listed_and_those_that_are_gone_are_not(
    home: Path, twin_venv: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(["ls"]) == 0
    assert "none yet: rlcore venv create ENV makes one in" in capsys.readouterr().out
    known_interpreters.note(twin_venv)
    known_interpreters.note(twin_venv / "bin" / "python")  # the same
    known_interpreters.note(home / "gone")
    assert command.main(["ls"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith(f"{twin_venv}: Python 3.") and f"numpy {version('numpy')}" in line
    (row,) = [row for row in plugin.rlcore_doctor(None) if row["name"] == "environment"]
    assert (row["status"], row["detail"]) == ("ok", line.partition(", ")[0])


def test_an_environment_that_was_named_by_its_interpreter_is_known_for_what_it_is(
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
    assert plugin.rlcore_doctor(run) == []  # which is told of its own ones only


def test_an_option_of_an_env_means_its_env_and_the_folder_may_have_blanks(
    home: Path, twin_venv: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made: list[tuple[str, Path]] = []

    def make(spec: ComponentSpec, folder: Path, *, python: str | None) -> Interpreter:
        made.append((spec.name, folder))
        return look(str(twin_venv))

    monkeypatch.setattr(command, "make", make)
    assert command.main(["create", "metaworld_45", str(home / "my venv")]) == 0
    assert command.main(["create", "metaworld_45"]) == 0
    assert made == [("metaworld", home / "my venv"), ("metaworld", venvs.usual("metaworld"))]
    use = f"'env.train.python={home}/my venv' 'env.eval.python={home}/my venv'"
    assert f"use it: rlcore train env=metaworld_45 {use}\n" in capsys.readouterr().out
    with pytest.raises(PluginError, match="there is no env 'metaworld_46'"):
        command.main(["create", "metaworld_46"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["create"], "create needs the name of an env"),
        (["remove"], "invalid choice: 'remove'"),
        (["ls", "x"], "ls takes no further words"),
    ],
)
def test_a_wrong_word_is_one_error(words: list[str], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        command.main(words)
    assert said in caught.value.message
