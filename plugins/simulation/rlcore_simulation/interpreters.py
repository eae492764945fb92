"""Start other Python processes, and query other interpreters for their versions. Light to import.

`python -m` and `python -c` put the current folder first on the module path, so that a `json.py` in
that folder would be executed. Processes started by this module don't search it, unless the user put
it on the path (PYTHONPATH).

A process may run under another interpreter in another environment (`env.train.python`);
:func:`look` returns its versions.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from rlcore.contracts.errors import AssetError, RunWarning

OLDEST = (3, 10)
"""Oldest version of Python that can run rlcore's code."""
OLDEST_NUMPY = (1, 24)
LOOK_SECONDS = 60.0
"""Timeout in seconds for querying another interpreter; it is long because cold disks are slow."""
QUIET_SECONDS = 5.0
"""Seconds of that after which a warning says what is waited for."""

# `python -P` does the same from Python 3.11 on. Site modules are imported before either.
_ELSEWHERE = "import sys; sys.path[:1] = filter(None, sys.path[:1])\n"
_RUN = (
    _ELSEWHERE + "sys.path[:] = {path!r} + [each for each in sys.path if each not in {path!r}]\n"
    "sys.argv = sys.argv[1:]\n"
    "import runpy; runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)"
)
# variables that are valid only for the interpreter that they were set for
_OF_ONE = ("PYTHONHOME", "PYTHONEXECUTABLE", "__PYVENV_LAUNCHER__", "VIRTUAL_ENV", "PYTHONPATH",
           "PYTHONPLATLIBDIR")  # fmt: skip

# this script must run in any version of Python, because it reports the version
_ASK = (
    _ELSEWHERE
    + r"""
import json
told = {"version": list(sys.version_info[:3]), "packages": {}, "numpy": None, "trouble": ""}
if sys.version_info[:2] >= (3, 10):
    from importlib import metadata
    for one in metadata.distributions():
        try:
            name, version = one.metadata["Name"], one.version
        except Exception:  # half removed: no package
            continue
        if name and version:
            told["packages"].setdefault(name, version)
    try:
        import numpy
        told["numpy"] = numpy.__version__
    except Exception as error:
        told["trouble"] = "%s: %s" % (type(error).__name__, error)
sys.stdout.write("\nrlcore-look " + json.dumps(told) + "\n")
"""
)


@dataclass(frozen=True)
class Interpreter:
    """Path, version and packages of an interpreter.

    Attributes:
        executable: path of the interpreter.
        version: version of Python, e.g. "3.11.7".
        packages: versions of the packages in its environment, by name.
    """

    executable: str
    version: str
    packages: Mapping[str, str]


def command(
    module: str, *arguments: str, python: str | None = None, path: Sequence[str] = ()
) -> list[str]:
    """Return the command that runs a module as `python -m` does.

    Args:
        python: interpreter or virtual environment; None: this interpreter.
        path: folders that are put first on the module path. They are part of the command, because
            PYTHONPATH may be unset by a script that wraps an interpreter, and can't hold paths with
            a colon.
    """
    run = _RUN.format(path=list(path))
    return [executable_of(python) if python else sys.executable, "-c", run, module, *arguments]


def imports(python: str, module: str) -> bool:
    """Check whether an interpreter can import a module, without the current folder."""
    try:
        return not subprocess.run(
            [python, "-c", f"{_ELSEWHERE}import {module}"],
            env=environment(()),
            stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ).returncode
    except OSError:
        return False


def environment(path: Iterable[str] | None = None) -> dict[str, str]:
    """Return environment variables for another Python process.

    They are those of this process, with a module path in PYTHONPATH. PYTHONSAFEPATH makes child
    processes of that process ignore the current folder, too (from Python 3.11 on).

    Args:
        path: folders for PYTHONPATH of another interpreter, for which variables that are valid only
            for this one are left out; None: a process of this interpreter gets `sys.path`.
    """
    if path is None:
        path, variables = sys.path, dict(os.environ)
    else:
        variables = {name: value for name, value in os.environ.items() if name not in _OF_ONE}
    joined = os.pathsep.join(folder for folder in path if folder)
    return variables | {"PYTHONPATH": joined, "PYTHONSAFEPATH": "1"}


def executable_of(python: str) -> str:
    """Return the path of an interpreter; for the folder of an environment, that of its interpreter.

    Links are not resolved, because Python finds its virtual environment by the path of the link.
    """
    path = Path(python)
    return str(path / "bin" / "python") if path.is_dir() else python


def without_processes(python: str) -> str:
    """Return the error message for `num_processes=0` with another interpreter, without the key."""
    return (
        f"must be at least 1 with python={python}: another interpreter can't simulate in a process "
        "of rlcore's, got 0"
    )


@cache
def look(python: str) -> Interpreter:
    """Start another interpreter, and return its versions. Results are cached.

    Raises:
        AssetError: there is no interpreter at this path; it is too old; it is reached by a link
            that hides its virtual environment; or its numpy is missing, broken or too old.
    """
    told = _asked(python)
    path = executable_of(python)
    version = _words(told["version"])
    meant = _behind(path)
    if meant is not None:
        raise AssetError(
            f"{path} is a link to the Python of an environment: started by it, Python doesn't know "
            "its environment",
            hint=f"name {meant} itself",
        )
    _require_new(path, told)
    if told["numpy"] is None:
        raise AssetError(
            f"{path} (Python {version}) has no numpy that works ({told['trouble']})",
            hint=shlex.join([path, "-m", "pip", "install", "numpy"]),
        )
    if tuple(map(int, re.findall(r"\d+", told["numpy"])[:2])) < OLDEST_NUMPY:
        raise AssetError(
            f"{path} has numpy {told['numpy']}, it must be {_words(OLDEST_NUMPY)} or newer",
            hint=shlex.join([path, "-m", "pip", "install", f"numpy>={_words(OLDEST_NUMPY)}"]),
        )
    return Interpreter(path, version, {**told["packages"], "numpy": told["numpy"]})


def _behind(path: str) -> str | None:
    """Return the interpreter of the virtual environment to which a link from outside leads.

    Python that is started by such a link does not find its environment. The result is None if
    `path` is not such a link.
    """
    while os.path.islink(path) and venv_of(path) is None:
        path = os.path.join(os.path.dirname(path), os.readlink(path))
        if venv_of(path) is not None:
            return path
    return None


def venv_of(executable: str) -> Path | None:
    """Return the folder of an interpreter's virtual environment; None if it has none."""
    folder = Path(executable).absolute().parent.parent
    return folder if (folder / "pyvenv.cfg").is_file() else None


def version_of(python: str) -> str:
    """Return the version of an interpreter of any age, e.g. "3.8.18".

    Raises:
        AssetError: there is no interpreter at this path.
    """
    return _words(_asked(python)["version"])


def packages_of(python: str) -> dict[str, str]:
    """Return the versions of the packages in an interpreter's environment, by name.

    Raises:
        AssetError: there is no interpreter at this path, or it is older than :data:`OLDEST`.
    """
    told = _asked(python)
    _require_new(executable_of(python), told)
    packages: dict[str, str] = told["packages"]
    return packages


def _require_new(path: str, told: Mapping[str, Any]) -> None:
    if tuple(told["version"]) < OLDEST:
        version = _words(told["version"])
        raise AssetError(f"{path} is Python {version}, it must be {_words(OLDEST)} or newer")


def _asked(python: str) -> dict[str, Any]:
    """Run the query script in an interpreter, and return its output.

    Raises:
        AssetError: the interpreter can't be started, fails, or exceeds :data:`LOOK_SECONDS`.
    """
    path = executable_of(python)
    if os.path.isdir(python) and not os.path.lexists(path):
        raise AssetError(f"{python} is no virtual environment: it has no bin/python")
    try:
        asked = subprocess.Popen(
            [path, "-c", _ASK],
            env=environment(()),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        if os.path.islink(path) and not os.path.exists(path):  # made on another machine?
            reason = f"it leads to {os.path.realpath(path)}, which is not there"
        raise AssetError(f"{path} is no Python interpreter: {reason}") from None
    with asked:
        try:
            out, err = _heard(asked, path)
        except subprocess.TimeoutExpired:
            raise AssetError(f"{path} has not told its version within {LOOK_SECONDS:g} s") from None
        finally:  # a wrapper script may leave the interpreter running: kill its process group
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(asked.pid, signal.SIGKILL)
    for line in out.decode(errors="replace").splitlines():
        mark, _, text = line.partition(" ")
        if mark == "rlcore-look":
            told: dict[str, Any] = json.loads(text)
            return told
    said = err.decode(errors="replace").strip().splitlines()
    # the error is in the last line of a traceback, but in the first line of any other output
    traced = any(line.startswith("Traceback") for line in said)
    line = said[-1 if traced else 0].strip() if said else ""
    last = f", {line}" if line and len(line) < 200 else ""
    raise AssetError(f"{path} is no Python interpreter: it ends with code {asked.returncode}{last}")


def _heard(asked: subprocess.Popen[bytes], path: str) -> tuple[bytes, bytes]:
    """Wait for the output of a query, and warn after :data:`QUIET_SECONDS`.

    Raises:
        subprocess.TimeoutExpired: the process takes longer than :data:`LOOK_SECONDS`.
    """
    quiet = min(QUIET_SECONDS, LOOK_SECONDS)
    with suppress(subprocess.TimeoutExpired):
        return asked.communicate(timeout=quiet)
    warnings.warn(
        f"{path} has not told its version yet; waiting {LOOK_SECONDS:g} s at most",
        RunWarning,
        stacklevel=2,
    )
    return asked.communicate(timeout=LOOK_SECONDS - quiet)


def cache_folder(name: str) -> Path:
    """Return a cache folder, with access for this user only; make it if it does not exist.

    It is in XDG_CACHE_HOME or ~/.cache; if that can't be written to, in the system's folder for
    temporary files.

    Raises:
        AssetError: neither folder can be written to and belongs to this user.
    """
    base = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")).absolute()
    usual = base / "rlcore" / name
    if _ours(usual):
        return usual
    other = None
    with suppress(OSError):  # there may be none that can be written
        other = Path(tempfile.gettempdir(), f"rlcore-{os.getuid()}")
    if other is not None and _ours(other) and _ours(other / name):
        return other / name
    raise AssetError(
        f"no folder to keep files in: {usual} and {other or 'the one for temporary files'} can't "
        "be written, or are somebody else's",
        hint="export XDG_CACHE_HOME=FOLDER chooses another",
    )


def _ours(folder: Path) -> bool:
    """Make a folder with access for this user only; return whether it exists and is writable.

    The result is False for a folder of another user.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if folder.stat().st_uid != os.getuid() or not os.access(folder, os.W_OK | os.X_OK):
            return False
        folder.chmod(0o700)
    except OSError:
        return False
    return True


def _words(version: Iterable[int]) -> str:
    return ".".join(map(str, version))
