"""Create virtual environments for simulators whose dependencies conflict with rlcore's. Light.

    ComponentSpec.requirements --rlcore venv create--> FOLDER/bin/python --env.train.python--> run

Without a folder they are made where the user's data is (:mod:`.known_interpreters`).
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from rlcore.contracts.errors import AssetError, ConfigError
from rlcore.contracts.specs import ComponentSpec
from rlcore_simulation import interpreters
from rlcore_simulation.interpreters import Interpreter
from rlcore_simulation.known_interpreters import home, note
from rlcore_simulation.requirements import ALONE, fits, lacking

STAMP = "rlcore-venv.json"
"""In an environment: what it was made for and whether here; once it is complete, of what, and in
how many seconds."""
BEGUN = "rlcore-venv-begun"
"""In one that has no interpreter or no pip yet: where the making was interrupted, it stays."""
CONFIG = "pyvenv.cfg"
PARTS = ("bin", "include", "lib", "lib64", "share", ".gitignore", ".lock", "CACHEDIR.TAG", CONFIG,
         STAMP, BEGUN)  # fmt: skip
"""What venv, uv and we put into the folder of an environment."""
NEWEST = 13
"""The newest minor version of Python 3 that is looked for."""


def usual(name: str) -> Path:
    """The folder of an env's environment, where none is given."""
    return home() / "venvs" / name


def make(
    spec: ComponentSpec,
    folder: Path,
    *,
    python: str | None = None,
    say: Callable[[str], None] = print,
) -> Interpreter:
    """An environment with what an env's simulators need; nothing is done where it is complete.

    Args:
        spec: of the env.
        folder: a new one, or that of an environment, in which only what is missing is installed:
            in one that was not made here for this env, no package gets another version.
        python: interpreter to make it with, as a path or a name; None: this one, or another one
            that is found, where the env needs another version.
        say: is told what is done.

    Raises:
        ConfigError: the env states no requirements, or the folder holds something else, or an
            environment with another Python.
        AssetError: there is no such Python, or something could not be installed.
    """
    if not spec.requirements:
        raise ConfigError(
            f"env {spec.name!r} does not say what its simulators need in an environment of their "
            "own (requirements of its ComponentSpec)",
            hint="its plugin's page says how to install it",
        )
    whole = {"env": spec.name, "requirements": list(spec.requirements)}
    _require_room(folder)
    with _alone(folder):
        there = (folder / CONFIG).is_file() and not (folder / BEGUN).is_file()
        if there:
            _require_same(folder, spec, python)
        else:
            chosen = _chosen(folder, spec, python)
        if there and whole.items() <= stamp(folder).items() and not lacks(folder, spec):
            say(f"{folder} is complete")
        else:
            if folder.exists() and not os.access(folder, os.W_OK | os.X_OK):
                raise ConfigError(
                    f"{folder} is not complete, and can't be written to",
                    hint=making(spec, usual(spec.name)),
                )
            begun = time.monotonic()
            known = stamp(folder)
            ours = not there or (known.get("env"), known.get("ours")) == (spec.name, True)
            if there:
                _require_fitting(folder, spec)
            else:
                _begin(folder, spec, chosen, say)
            if ours:  # and not complete as yet
                _note_down(folder, {"env": spec.name, "ours": True})
            _install(folder, spec, say, ours)
            missing = lacks(folder, spec)
            if missing:
                raise AssetError(f"{folder} still lacks {', '.join(missing)}")
            seconds = round(time.monotonic() - begun)
            _note_down(folder, {**whole, "ours": ours, "seconds": seconds})
            say(f"{folder} is complete after {seconds} s")
    note(folder)
    return interpreters.look(str(folder))


def _given(folder: Path, spec: ComponentSpec, python: str) -> str:
    """The interpreter of `--python`; a name that is not on PATH is one that uv may know.

    Raises:
        ConfigError: there is none.
        AssetError: it is no interpreter.
    """
    found = interpreters.executable_of(os.path.expanduser(python))
    here, other = shutil.which(found), f"{making(spec, folder)} --python PATH"
    if here is None and (_uv() is None or os.sep in found):
        raise ConfigError(
            f"--python must be an interpreter, as a path or a name on PATH, got {python!r}",
            hint=other,
        )
    try:
        if here is not None:
            interpreters.version_of(here)
    except AssetError as error:
        raise AssetError(f"--python: {error.message}", hint=other) from None
    return found


def _chosen(folder: Path, spec: ComponentSpec, python: str | None) -> str:
    """The interpreter to make an environment with. Raises UserError where there is none."""
    uv = _uv()
    other = f"{making(spec, folder)} --python PATH"
    chosen = _python(spec.requires_python) if python is None else _given(folder, spec, python)
    if chosen is None and uv is not None:
        chosen = spec.requires_python  # uv finds it, or fetches it
    if chosen is None:
        raise AssetError(
            f"env {spec.name!r} needs Python {spec.requires_python} for its simulators, and there "
            "is none here",
            hint=f"pip install uv (it fetches one), or {other}",
        )
    found = shutil.which(chosen)
    version = interpreters.version_of(found) if found else ""
    if found and not fits(version, spec.requires_python):
        fitting = _python(spec.requires_python)
        without = f"{making(spec, folder)} makes it with {fitting}"
        raise ConfigError(
            f"--python must be Python {spec.requires_python} for the simulators of {spec.name}, "
            f"got {chosen} ({version})",
            hint=other if fitting is None else without,
        )
    if uv is None and not interpreters.imports(chosen, "ensurepip"):
        # as Debian divides Python: it would leave an environment without pip
        raise AssetError(
            f"{folder} could not be made: {chosen} lacks its module ensurepip",
            hint=f"apt-get install python3-venv, or pip install uv; then {making(spec, folder)}",
        )
    return chosen


def _begin(folder: Path, spec: ComponentSpec, chosen: str, say: Callable[[str], None]) -> None:
    """An empty environment."""
    if (folder / BEGUN).is_file():
        say(f"{folder} was interrupted as it was made: making it anew")
        _empty(folder)
    say(f"making {folder} with {chosen}")
    uv = _uv()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / BEGUN).touch()
    if uv is not None:
        empty = [uv, "venv", "--quiet", "--allow-existing", "--python", chosen]
    else:
        empty = interpreters.command("venv", python=shutil.which(chosen) or chosen)
    try:
        failed = f"{folder} could not be made"
        _run([*empty, str(folder)], failed, f"{making(spec, folder)} --python PATH")
    except AssetError:
        _empty(folder)  # of what was begun, lest it is taken for somebody's own
        raise
    (folder / BEGUN).unlink()


def _empty(folder: Path) -> None:
    """Remove what an environment is made of, the mark that it was begun last. The folder may be a
    mount, or a link to one, and what else is in it stays."""
    for one in (folder / name for name in PARTS):
        if one.is_dir() and not one.is_symlink():
            shutil.rmtree(one)
        else:
            one.unlink(missing_ok=True)


def _require_fitting(folder: Path, spec: ComponentSpec) -> None:
    """An environment that is there has a Python that the env takes."""
    with suppress(AssetError):  # it has none: said where packages are installed
        version = interpreters.version_of(str(folder))
        if not fits(version, spec.requires_python):
            raise ConfigError(
                f"{folder} has Python {version}, and the simulators of {spec.name} need Python "
                f"{spec.requires_python}",
                hint=f"rm -r {shlex.quote(str(folder))}, then {making(spec, folder)}",
            )


def _require_same(folder: Path, spec: ComponentSpec, python: str | None) -> None:
    """An environment that is there has the very Python that is asked for."""
    if python is None:
        return
    given = _given(folder, spec, python)
    with suppress(AssetError):  # it has none: said elsewhere; or only uv knows the one asked for
        there = interpreters.version_of(str(folder))
        asked = interpreters.version_of(given)
        if there != asked:
            again = f"{making(spec, folder)} --python {shlex.quote(python)}"
            raise ConfigError(
                f"--python is Python {asked}, but {folder} is there already, with Python {there}",
                hint=f"{shlex.join(['rm', '-r', str(folder)])} && {again}",
            )


def making(spec: ComponentSpec, folder: Path) -> str:
    """The command that makes it, or goes on with what is there."""
    return f"rlcore venv create {spec.name} {shlex.quote(str(folder))}"


def _require_room(folder: Path) -> None:
    """It is a virtual environment, or a new one can be made there.

    Raises:
        ConfigError: it is neither.
    """
    if (folder / CONFIG).is_file() or (folder / BEGUN).is_file():
        return
    there = next(each for each in (folder, *folder.parents) if os.path.lexists(each))
    wrong = ""
    if not there.is_dir():
        wrong = f"{there} is a file" if there.is_file() else f"{there} is no folder"
    elif there == folder and any(folder.iterdir()):
        wrong = "it holds something else"
    elif not os.access(there, os.W_OK | os.X_OK):
        wrong = f"{there} can't be written to"
    if wrong:
        raise ConfigError(
            f"{folder} must be a new folder or a virtual environment, but {wrong}",
            hint="rlcore venv create ENV takes a folder of rlcore's own",
        )


def _install(folder: Path, spec: ComponentSpec, say: Callable[[str], None], ours: bool) -> None:
    """Install all of them, those that stand alone last. In somebody's own environment no package
    gets another version: what can't be installed beside them is an error."""
    uv, python = _uv(), interpreters.executable_of(str(folder))
    again = making(spec, folder)
    if not os.path.exists(python):  # made on another machine?
        remove = shlex.join(["rm", "-r", str(folder)])
        raise AssetError(f"{folder} has no bin/python that works", hint=f"{remove} && {again}")
    if not takes_packages(folder):
        raise AssetError(
            f"{folder} has no pip, by which its packages are installed",
            hint=f"{shlex.quote(python)} -m ensurepip, or pip install uv; then {again}",
        )
    requirements = spec.requirements
    quiet = ("install", "--quiet")
    pip = [uv, "pip", *quiet, "--python", python] if uv else (
        interpreters.command("pip", *quiet, "--disable-pip-version-check", python=python)
    )  # fmt: skip
    together = [each for each in requirements if not each.endswith(ALONE)]
    alone = [each.removesuffix(ALONE) for each in requirements if each.endswith(ALONE)]
    hint = (
        "its lines above say why: no network, or nothing built for this Python? What is done so "
        f"far stays in {folder}, and the same command goes on with it: {again}"
    )
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as fixed:
        if not ours:
            found = interpreters.packages_of(python)
            fixed.write("".join(f"{name}=={version}\n" for name, version in found.items()))
            fixed.flush()
            pip += ["--constraint", fixed.name]
            hint = (
                f"its lines above say why: in {folder}, which rlcore did not make for {spec.name}, "
                f"packages keep their versions. One of its own: rlcore venv create {spec.name}"
            )
        for options, wanted in (([], together), ([ALONE.strip()], alone)):
            if wanted:
                say(f"installing {' '.join(wanted)} with {'uv' if uv else 'pip'}")
                _run([*pip, *options, *wanted], f"{' '.join(wanted)} could not be installed", hint)
    interpreters.look.cache_clear()


def takes_packages(folder: Path) -> bool:
    """Whether a folder is an environment that packages can be installed into."""
    python = str(folder / "bin" / "python")
    return interpreters.imports(python, "pip") if _uv() is None else os.path.exists(python)


def _run(command: Sequence[str], failed: str, hint: str | None = None) -> None:
    """Run a command of pip or uv, whose output is shown.

    Raises:
        AssetError: it can't be run, or fails; says what `failed` says.
    """
    variables = interpreters.environment(())
    if "PIP_INDEX_URL" in variables:  # uv does not look at pip's
        variables.setdefault("UV_DEFAULT_INDEX", variables["PIP_INDEX_URL"])
    try:
        code = subprocess.run(command, env=variables, stdin=subprocess.DEVNULL).returncode
    except OSError as error:
        raise AssetError(f"{failed}: {command[0]}: {error.strerror}", hint=hint) from None
    if code:
        raise AssetError(f"{failed}: {command[0]} ends with code {code}", hint=hint)


def _uv() -> str | None:
    beside = Path(sys.executable).with_name("uv")
    return str(beside) if beside.is_file() else shutil.which("uv")


def _python(wanted: str | None) -> str | None:
    """This interpreter if it will do, else the newest that does and is found by its name."""
    if fits(".".join(map(str, sys.version_info[:3])), wanted):
        return sys.executable
    for minor in range(NEWEST, interpreters.OLDEST[1] - 1, -1):
        found = shutil.which(f"python3.{minor}")
        with suppress(AssetError):  # a link to nothing
            if found is not None and fits(interpreters.version_of(found), wanted):
                return found
    return None


def lacks(folder: Path, spec: ComponentSpec) -> list[str]:
    """What an environment has not, or what is wrong with it."""
    try:
        found = interpreters.look(str(folder))
    except AssetError as error:
        return [error.message]
    return [f"{wanted} (there: {version})" for wanted, version in lacking(found, spec)]


def stamp(folder: Path | str) -> dict[str, object]:
    """What an environment says of itself, see :data:`STAMP`; empty if it does not say."""
    with suppress(OSError, ValueError):
        found = json.loads(Path(folder, STAMP).read_text(encoding="utf-8"))
        return found if isinstance(found, dict) else {}
    return {}


def _note_down(folder: Path, facts: dict[str, object]) -> None:
    (folder / STAMP).write_text(f"{json.dumps(facts, indent=1)}\n", encoding="utf-8")


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One process at a time makes an environment; the others wait, and find it complete."""
    name = hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]
    with (interpreters.cache_folder("locks") / name).open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        interpreters.look.cache_clear()
        yield
