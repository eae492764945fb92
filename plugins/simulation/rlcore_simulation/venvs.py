"""Create and find virtual environments for components whose dependencies conflict with rlcore's.

    ComponentSpec.requirements --rlcore venv create--> FOLDER/bin/python --env.train.python--> run

A component is an env, whose simulators run there, or a model, whose network does.

The default folder is in the user's data folder (:mod:`.known_interpreters`). Light to import.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from rlcore.config.warning import warn
from rlcore.contracts.errors import AssetError, ConfigError
from rlcore.contracts.specs import ComponentSpec
from rlcore_simulation.interpreters import (
    Interpreter,
    environment,
    executable_of,
    query_interpreter,
    venv_of,
)
from rlcore_simulation.known_interpreters import home, note, noted
from rlcore_simulation.requirements import ALONE, PYTHON, fits, lacking, listed, own_interpreter

STAMP = "rlcore-venv.json"
"""File in an environment, in JSON: the env or model that it was made for, by the kind, and whether
this module made it; once it is complete, also its requirements and the seconds that the
installation took."""
CONFIG = "pyvenv.cfg"
PYTHONS = tuple(f"python3.{minor}" for minor in range(13, 9, -1))
"""Names of interpreters that are searched for, the newest first."""


def usual(name: str) -> Path:
    """Return the default folder of a component's environment."""
    return home() / "venvs" / name


def making(spec: ComponentSpec, folder: Path) -> str:
    """Return the command that makes or completes a component's environment in a folder."""
    return f"rlcore venv create {spec.name} {shlex.quote(str(folder))}"


def make(
    spec: ComponentSpec,
    folder: Path,
    *,
    python: str | None = None,
    say: Callable[[str], None] = print,
) -> Interpreter:
    """Make a virtual environment with the requirements of a component.

    A complete environment is left as it is.

    Args:
        spec: spec of the env or model.
        folder: a new folder, or that of an environment, in which only what is missing is installed.
            If this function did not make that environment for this component, the versions of its
            packages do not change.
        python: interpreter to make the environment with, as a path or a name; None: this one, or if
            the component needs another version of Python, one that is found.
        say: called with a line for the user on each action, e.g. the commands that are run.

    Returns:
        description of the environment's interpreter.

    Raises:
        ConfigError: the component has no requirements, or the folder contains something else or an
            environment with another Python.
        AssetError: there is no such Python, or something could not be installed.
    """
    if not spec.requirements:
        raise ConfigError(
            f"{spec.kind} {spec.name!r} does not say what it needs in an environment of its own "
            "(requirements of its ComponentSpec)",
            hint="its plugin's page says how to install it",
        )
    query_interpreter.cache_clear()
    complete = {spec.kind: spec.name, "requirements": list(spec.requirements)}
    exists = (folder / CONFIG).is_file()
    if exists:
        _require_python(folder, spec, python)
    if exists and complete.items() <= stamp(folder).items() and not lacks(folder, spec):
        say(f"{folder} is complete")
    else:
        begun = time.monotonic()
        if not exists:
            _make_empty(folder, spec, python, say)
        mine = {spec.kind: spec.name, "ours": True}
        ours = mine.items() <= stamp(folder).items()
        _install(folder, spec, say, ours)
        missing = lacks(folder, spec)
        if missing:
            raise AssetError(f"{folder} still lacks {', '.join(missing)}")
        seconds = round(time.monotonic() - begun)
        _write_stamp(folder, {**complete, "ours": ours, "seconds": seconds})
        say(f"{folder} is complete after {seconds} s")
    note(folder)
    return query_interpreter(str(folder))


def _require_python(folder: Path, spec: ComponentSpec, python: str | None) -> None:
    """Check that an environment has a Python that the component supports, and that of `--python`.

    Raises:
        ConfigError: it has another version.
        AssetError: it has no interpreter, or `--python` is unsuitable.
    """
    again = f"rm -r {shlex.quote(str(folder))} && {making(spec, folder)}"
    try:
        version = query_interpreter(str(folder)).version
    except AssetError as error:  # made on another machine?
        raise AssetError(error.message, hint=again) from None
    required = (
        None if python is None else f"=={query_interpreter(_base_python(spec, python)).version}"
    )
    for specifier in (spec.requires_python, required):
        if not fits(version, specifier):
            raise ConfigError(
                f"{folder} exists, with Python {version} instead of {specifier}", hint=again
            )


def _make_empty(
    folder: Path, spec: ComponentSpec, python: str | None, say: Callable[[str], None]
) -> None:
    """Make an environment without packages. If that fails, nothing remains of it.

    Raises:
        ConfigError: the folder contains something else.
        AssetError: there is no suitable Python, or making the environment failed.
    """
    if os.path.lexists(folder) and not (folder.is_dir() and not any(folder.iterdir())):
        raise ConfigError(
            f"{folder} must be a new folder or a virtual environment, but it holds something else",
            hint="rlcore venv create NAME takes a folder of rlcore's own",
        )
    base = _base_python(spec, python)
    uv = _uv()
    if uv is not None:
        command = [uv, "venv", "--quiet", "--allow-existing", "--python", base, str(folder)]
    else:
        command = [base, "-I", "-m", "venv", str(folder)]
    try:
        hint = f"{making(spec, folder)} --python PATH, or pip install uv if ensurepip is missing"
        _run(command, say, f"{folder} could not be made", hint)
        _write_stamp(folder, {spec.kind: spec.name, "ours": True})
    except BaseException:  # otherwise the rest would be taken for an environment of the user's
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _base_python(spec: ComponentSpec, python: str | None) -> str:
    """Choose the interpreter to make an environment with; for uv, possibly a version specifier.

    Raises:
        AssetError: there is no suitable interpreter, or `python` is none.
    """
    needed = spec.requires_python
    for name in (sys.executable, *PYTHONS) if python is None else (python,):
        path = shutil.which(executable_of(os.path.expanduser(name)))
        with suppress(AssetError):  # a link to nothing
            if path is not None and fits(query_interpreter(path).version, needed):
                return path
    if python is None and needed is not None and _uv() is not None:
        return needed  # uv finds it, or fetches it
    raise AssetError(
        f"{spec.kind} {spec.name!r} needs Python {needed or PYTHON} in an environment of its own, "
        f"and {python or 'what is installed'} is none",
        hint=f"pip install uv (it fetches one), or rlcore venv create {spec.name} --python PATH",
    )


def _install(folder: Path, spec: ComponentSpec, say: Callable[[str], None], ours: bool) -> None:
    """Install the requirements of a component; those without dependencies (:data:`ALONE`) last.

    Args:
        ours: whether this module made the environment for this component. Otherwise its packages
            are constrained to their present versions, and a conflict with them is an error.

    Raises:
        AssetError: the environment has no pip, or the installation failed.
    """
    uv = _uv()
    again = making(spec, folder)
    interpreter = query_interpreter(str(folder))
    if not takes_packages(folder):
        python = shlex.quote(interpreter.executable)
        raise AssetError(
            f"{folder} has no pip, by which its packages are installed",
            hint=f"{python} -m ensurepip, or pip install uv; then {again}",
        )
    pip = [
        interpreter.executable,
        "-I",
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
    ]
    if uv is not None:
        pip = [uv, "pip", "install", "--quiet", "--python", interpreter.executable]
    with_dependencies = [text for text in spec.requirements if not text.endswith(ALONE)]
    without_dependencies = [
        text.removesuffix(ALONE) for text in spec.requirements if text.endswith(ALONE)
    ]
    hint = (
        "its lines above say why: no network, or nothing built for this Python? What is done so "
        f"far stays in {folder}, and the same command goes on with it: {again}"
    )
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as constraints:
        if not ours:
            packages = interpreter.packages.items()
            constraints.write("".join(f"{name}=={version}\n" for name, version in packages))
            constraints.flush()
            pip += ["--constraint", constraints.name]
            hint = (
                f"its lines above say why: in {folder}, which rlcore did not make for {spec.name}, "
                f"packages keep their versions. One of its own: rlcore venv create {spec.name}"
            )
        for options, requirements in (
            ([], with_dependencies),
            ([ALONE.strip()], without_dependencies),
        ):
            if requirements:
                failed = f"{' '.join(requirements)} could not be installed"
                _run([*pip, *options, *requirements], say, failed, hint)
    query_interpreter.cache_clear()


def takes_packages(folder: Path) -> bool:
    """Check whether packages can be installed into an environment: it has pip, or there is uv."""
    return _uv() is not None or "pip" in query_interpreter(str(folder)).packages


def _run(command: list[str], say: Callable[[str], None], failed: str, hint: str) -> None:
    """Print a command and run it.

    Args:
        failed: message of the error if it fails.
        hint: hint of the error.

    Raises:
        AssetError: the command can't be started, or fails.
    """
    say(shlex.join(command))
    variables = environment(())
    if "PIP_INDEX_URL" in variables:  # uv does not read pip's variables
        variables.setdefault("UV_DEFAULT_INDEX", variables["PIP_INDEX_URL"])
    try:
        subprocess.run(command, env=variables, stdin=subprocess.DEVNULL, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise AssetError(f"{failed}: {error}", hint=hint) from None


def _uv() -> str | None:
    neighbour = Path(sys.executable).with_name("uv")
    return str(neighbour) if neighbour.is_file() else shutil.which("uv")


def lacks(folder: Path, spec: ComponentSpec) -> list[str]:
    """Return what an environment lacks, or why it can't be used; empty if it is complete."""
    try:
        interpreter = query_interpreter(str(folder))
    except AssetError as error:
        return [error.message]
    return listed(lacking(interpreter, spec))


def stamp(folder: Path | str) -> dict[str, object]:
    """Read the facts in an environment's :data:`STAMP`; empty if there is no valid file."""
    with suppress(OSError, ValueError):
        facts = json.loads(Path(folder, STAMP).read_text(encoding="utf-8"))
        return facts if isinstance(facts, dict) else {}
    return {}


def _write_stamp(folder: Path, facts: dict[str, object]) -> None:
    (folder / STAMP).write_text(f"{json.dumps(facts, indent=1)}\n", encoding="utf-8")


def find_environment(spec: ComponentSpec, key: str = "env.*.python") -> str | None:
    """Return the folder of the newest complete environment that was made for a component.

    Folders that are not recorded (:mod:`.known_interpreters`) are never used, because anyone who
    can write to such a folder could execute code. The function warns if there are several, or if it
    skips an incomplete one.

    Args:
        spec: spec of the env or model.
        key: key that names another one.

    Returns:
        None if rlcore's own environment has all that the component needs, or if there is no other
        one.
    """
    if not any(lacking(own_interpreter(spec), spec)):
        return None
    recorded = {venv_of(executable_of(path)) for path in noted()} | {usual(spec.name)}
    candidates = [
        folder for folder in recorded if folder and stamp(folder).get(spec.kind) == spec.name
    ]
    candidates.sort(key=lambda folder: (folder / STAMP).stat().st_mtime, reverse=True)
    for place, folder in enumerate(candidates):
        complete = "requirements" in stamp(folder)
        wrong = lacks(folder, spec) if complete else ["it was never completed"]
        if wrong:
            warn(f"{folder} is skipped: {'; '.join(wrong)} ({making(spec, folder)} completes it)")
            continue
        others = ", ".join(map(str, candidates[place + 1 :]))
        if others:
            warn(
                f"{spec.name} runs in {folder}, the newest environment that was made for it "
                f"(others: {others}); '{key}=FOLDER' names one"
            )
        return str(folder)
    return None
