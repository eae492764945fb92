"""Start other Python processes, and query other interpreters for their versions. Light.

`python -m` and `python -c` put the current folder first on the module path, so that a `json.py`
that happens to be there would be run. Processes started here never search it, unless the user put
it on the path (PYTHONPATH). Knows nothing of what the processes do.

A process may run under another interpreter, in an environment of its own (`env.train.python`):
:func:`look` reads that one's versions.
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
"""Of Python, for whatever runs our code."""
OLDEST_NUMPY = (1, 24)
LOOK_SECONDS = 60.0
"""How long another interpreter may take to tell its versions; a cold disk is slow."""
QUIET_SECONDS = 5.0
"""How long that is waited for without a word."""

# `-P` does the same, from Python 3.11 on; the site modules have been imported by then there too.
_ELSEWHERE = "import sys; sys.path[:1] = filter(None, sys.path[:1])\n"
_RUN = (
    _ELSEWHERE + "sys.path[:] = {path!r} + [each for each in sys.path if each not in {path!r}]\n"
    "sys.argv = sys.argv[1:]\n"
    "import runpy; runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)"
)
# What only means something to the interpreter that it was set for.
_OF_ONE = ("PYTHONHOME", "PYTHONEXECUTABLE", "__PYVENV_LAUNCHER__", "VIRTUAL_ENV", "PYTHONPATH",
           "PYTHONPLATLIBDIR")  # fmt: skip

# Any Python reads this, however old.
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
    """What another interpreter says of itself.

    Attributes:
        executable: its path.
        version: of Python, e.g. "3.11.7".
        packages: versions of what is installed in its environment, by name.
    """

    executable: str
    version: str
    packages: Mapping[str, str]


def command(
    module: str, *arguments: str, python: str | None = None, path: Sequence[str] = ()
) -> list[str]:
    """The command that runs a module as `python -m` does, by this interpreter or another one.

    Args:
        path: folders that come first on its path of modules, whatever becomes of PYTHONPATH: a
            script in place of an interpreter may unset it, and a colon divides it.
    """
    run = _RUN.format(path=list(path))
    return [executable_of(python) if python else sys.executable, "-c", run, module, *arguments]


def imports(python: str, module: str) -> bool:
    """Whether an interpreter has a module, outside the current folder."""
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
    """This process's variables, with its path of modules in PYTHONPATH; children of children don't
    look into the current folder either (from Python 3.11 on).

    Args:
        path: for another interpreter: all that is put on its path of modules. Variables that mean
            something to this interpreter alone are left out.
    """
    if path is None:
        path, variables = sys.path, dict(os.environ)
    else:
        variables = {name: value for name, value in os.environ.items() if name not in _OF_ONE}
    joined = os.pathsep.join(folder for folder in path if folder)
    return variables | {"PYTHONPATH": joined, "PYTHONSAFEPATH": "1"}


def executable_of(python: str) -> str:
    """The interpreter of a path: itself, or that of the virtual environment in this folder. Links
    are not followed: an environment knows itself by them."""
    path = Path(python)
    return str(path / "bin" / "python") if path.is_dir() else python


def without_processes(python: str) -> str:
    """What is wrong with `num_processes=0` where simulators run under another interpreter."""
    return (
        f"must be at least 1 with python={python}: another interpreter can't simulate in a process "
        "of rlcore's, got 0"
    )


@cache
def look(python: str) -> Interpreter:
    """Start another interpreter once, and let it tell its versions.

    Raises:
        AssetError: there is none at this path, it is too old, or lacks numpy.
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
    """The interpreter of a virtual environment that a link outside leads to. Started by the link,
    it does not know of its environment."""
    while os.path.islink(path) and venv_of(path) is None:
        path = os.path.join(os.path.dirname(path), os.readlink(path))
        if venv_of(path) is not None:
            return path
    return None


def venv_of(executable: str) -> Path | None:
    """The folder of the virtual environment that an interpreter is of; None where it is of none."""
    folder = Path(executable).absolute().parent.parent
    return folder if (folder / "pyvenv.cfg").is_file() else None


def version_of(python: str) -> str:
    """The version of any Python, e.g. "3.8.18".

    Raises:
        AssetError: there is none at this path.
    """
    return _words(_asked(python)["version"])


def packages_of(python: str) -> dict[str, str]:
    """Versions of what is installed in an interpreter's environment, by name.

    Raises:
        AssetError: there is none at this path, or it is too old.
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
    """What the interpreter says."""
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
        finally:  # a script that starts an interpreter leaves what it started: end that too
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(asked.pid, signal.SIGKILL)
    for line in out.decode(errors="replace").splitlines():
        mark, _, text = line.partition(" ")
        if mark == "rlcore-look":
            told: dict[str, Any] = json.loads(text)
            return told
    said = err.decode(errors="replace").strip().splitlines()
    # a traceback says in its last line what is wrong, anything else in its first
    traced = any(line.startswith("Traceback") for line in said)
    line = said[-1 if traced else 0].strip() if said else ""
    last = f", {line}" if line and len(line) < 200 else ""
    raise AssetError(f"{path} is no Python interpreter: it ends with code {asked.returncode}{last}")


def _heard(asked: subprocess.Popen[bytes], path: str) -> tuple[bytes, bytes]:
    """What it writes; says what is waited for where that takes long."""
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
    """A folder of this user alone for what can be made again: below XDG_CACHE_HOME, or ~/.cache; in
    the folder for temporary files where that can't be written.

    Raises:
        AssetError: neither can be written, or belongs to this user.
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
    """Make a folder of this user alone; whether it could be made, or is one."""
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
