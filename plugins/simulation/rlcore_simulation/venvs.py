"""Create virtual environments for simulators whose dependencies conflict with rlcore's.

    ComponentSpec.requirements --rlcore venv create--> FOLDER/bin/python --env.train.python--> run

The default folder is in the user's data folder (:mod:`.known_interpreters`). Light to import.
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
"""File in an environment, in JSON: the env that it was made for, and whether this module made it;
once it is complete, also its requirements and the seconds that the installation took."""
BEGUN = "rlcore-venv-begun"
"""File in an environment that has no interpreter or no pip yet. It remains if making the
environment is interrupted."""
CONFIG = "pyvenv.cfg"
PARTS = ("bin", "include", "lib", "lib64", "share", ".gitignore", ".lock", "CACHEDIR.TAG", CONFIG,
         STAMP, BEGUN)  # fmt: skip
"""Names of what venv, uv and this module write into the folder of an environment."""
NEWEST = 13
"""Newest minor version of Python 3 that is searched for."""


def usual(name: str) -> Path:
    """Return the default folder of an env's environment."""
    return home() / "venvs" / name


def make(
    spec: ComponentSpec,
    folder: Path,
    *,
    python: str | None = None,
    say: Callable[[str], None] = print,
) -> Interpreter:
    """Make a virtual environment with the requirements of an env's simulators.

    A complete environment is left as it is.

    Args:
        spec: spec of the env.
        folder: a new folder, or that of an environment, in which only what is missing is installed.
            If this function did not make that environment for this env, the versions of its
            packages do not change.
        python: interpreter to make the environment with, as a path or a name; None: this one, or if
            the env needs another version of Python, one that is found.
        say: called with a line for the user on each action.

    Returns:
        description of the environment's interpreter.

    Raises:
        ConfigError: the env has no requirements, or the folder contains something else or an
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
            if ours:  # without requirements, as it is not complete yet
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
    """Return the interpreter of `--python`. A name that is not on PATH is left to uv.

    Raises:
        ConfigError: the interpreter does not exist.
        AssetError: the file is not an interpreter.
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
    """Choose the interpreter to make an environment with.

    Raises:
        ConfigError: the given interpreter does not exist, or has another version than the env
            needs.
        AssetError: there is no suitable interpreter, or it lacks the module ensurepip.
    """
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
    """Make an empty environment, after removing one whose making was interrupted."""
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
        _empty(folder)  # otherwise the rest would be taken for an environment of the user's
        raise
    (folder / BEGUN).unlink()


def _empty(folder: Path) -> None:
    """Remove the files of an environment, and its :data:`BEGUN` file last.

    The folder itself and other files in it remain, because it may be a mount or a link to one.
    """
    for one in (folder / name for name in PARTS):
        if one.is_dir() and not one.is_symlink():
            shutil.rmtree(one)
        else:
            one.unlink(missing_ok=True)


def _require_fitting(folder: Path, spec: ComponentSpec) -> None:
    """Check that an existing environment has a version of Python that the env supports.

    Raises:
        ConfigError: it has another version.
    """
    with suppress(AssetError):  # it has none: said where packages are installed
        version = interpreters.version_of(str(folder))
        if not fits(version, spec.requires_python):
            raise ConfigError(
                f"{folder} has Python {version}, and the simulators of {spec.name} need Python "
                f"{spec.requires_python}",
                hint=f"rm -r {shlex.quote(str(folder))}, then {making(spec, folder)}",
            )


def _require_same(folder: Path, spec: ComponentSpec, python: str | None) -> None:
    """Check that an existing environment has the same version of Python as `--python`.

    Raises:
        ConfigError: it has another version, or `--python` does not exist.
        AssetError: `--python` is not an interpreter.
    """
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
    """Return the command that makes or completes an env's environment in a folder."""
    return f"rlcore venv create {spec.name} {shlex.quote(str(folder))}"


def _require_room(folder: Path) -> None:
    """Check that a folder is a virtual environment, or that a new one can be made there.

    Raises:
        ConfigError: the folder contains something else, or can't be written to.
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
    """Install the requirements of an env; those without dependencies (:data:`ALONE`) last.

    Args:
        ours: whether this module made the environment for this env. Otherwise its packages are
            constrained to their present versions, and a conflict with them is an error.

    Raises:
        AssetError: the environment has no Python or pip that works, or the installation failed.
    """
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
    """Check whether packages can be installed into an environment: it has pip, or there is uv."""
    python = str(folder / "bin" / "python")
    return interpreters.imports(python, "pip") if _uv() is None else os.path.exists(python)


def _run(command: Sequence[str], failed: str, hint: str | None = None) -> None:
    """Run a command of venv, pip or uv, and show its output.

    Args:
        failed: beginning of the error message.
        hint: hint of the error.

    Raises:
        AssetError: the command can't be started, or fails.
    """
    variables = interpreters.environment(())
    if "PIP_INDEX_URL" in variables:  # uv does not read pip's variables
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
    """Return this interpreter if its version fits, else the newest `python3.N` on PATH, or None."""
    if fits(".".join(map(str, sys.version_info[:3])), wanted):
        return sys.executable
    for minor in range(NEWEST, interpreters.OLDEST[1] - 1, -1):
        found = shutil.which(f"python3.{minor}")
        with suppress(AssetError):  # a link to nothing
            if found is not None and fits(interpreters.version_of(found), wanted):
                return found
    return None


def lacks(folder: Path, spec: ComponentSpec) -> list[str]:
    """Return what an environment lacks, or why it can't be used; empty if it is complete."""
    try:
        found = interpreters.look(str(folder))
    except AssetError as error:
        return [error.message]
    return [f"{wanted} (there: {version})" for wanted, version in lacking(found, spec)]


def stamp(folder: Path | str) -> dict[str, object]:
    """Read the facts in an environment's :data:`STAMP`; empty if there is no valid file."""
    with suppress(OSError, ValueError):
        found = json.loads(Path(folder, STAMP).read_text(encoding="utf-8"))
        return found if isinstance(found, dict) else {}
    return {}


def _note_down(folder: Path, facts: dict[str, object]) -> None:
    (folder / STAMP).write_text(f"{json.dumps(facts, indent=1)}\n", encoding="utf-8")


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold a lock, so that only one process at a time makes an environment; others wait for it."""
    name = hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]
    with (interpreters.cache_folder("locks") / name).open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        interpreters.look.cache_clear()
        yield
