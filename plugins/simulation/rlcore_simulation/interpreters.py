"""Start other Python processes, and query other interpreters for their versions. Light to import.

`python -m` and `python -c` put the current folder first on the module path, so that a `json.py` in
that folder would be executed. Processes started by this module don't search it, unless the user put
it on the path (PYTHONPATH).

A process may run under another interpreter in another environment (`env.train.python`);
:func:`query_interpreter` returns its versions.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from rlcore.contracts.errors import AssetError

LOOK_SECONDS = 60.0
"""Timeout in seconds for querying another interpreter; it is long because cold disks are slow."""

# `python -P` does the same from Python 3.11 on. Site modules are imported before either.
_ELSEWHERE = "import sys; sys.path[:1] = filter(None, sys.path[:1])\n"
_RUN = (
    _ELSEWHERE
    + "sys.path[:] = {path!r} + [folder for folder in sys.path if folder not in {path!r}]\n"
    "sys.argv = sys.argv[1:]\n"
    "import runpy; runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)"
)
# variables that are valid only for the interpreter that they were set for
_OF_ONE = (
    *("PYTHONHOME", "PYTHONEXECUTABLE", "PYTHONPATH", "PYTHONPLATLIBDIR"),
    *("VIRTUAL_ENV", "__PYVENV_LAUNCHER__"),
)

_ANSWER = "rlcore-look "
# This script must run in any version of Python, because it reports the version. A numpy that can't
# be imported is left out of the packages.
_QUERY = (
    _ELSEWHERE
    + r"""
import json
packages = {}
if sys.version_info[:2] >= (3, 10):
    from importlib import metadata
    for distribution in metadata.distributions():
        try:
            name, version = distribution.metadata["Name"], distribution.version
        except Exception:  # half removed: no package
            continue
        if name and version:
            packages.setdefault(name, version)
    packages.pop("numpy", None)
    try:
        import numpy
        packages["numpy"] = numpy.__version__
    except Exception:
        pass
version = "%d.%d.%d" % sys.version_info[:3]
sys.stdout.write("\nrlcore-look " + json.dumps({"version": version, "packages": packages}) + "\n")
"""
)


@dataclass(frozen=True)
class Interpreter:
    """Path, version and packages of an interpreter.

    Attributes:
        executable: path of the interpreter.
        version: version of Python, e.g. "3.11.7".
        packages: versions of the packages in its environment, by name; empty before Python 3.10.
            numpy is listed only if it can be imported.
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


def environment(path: Iterable[str] | None = None) -> dict[str, str]:
    """Return environment variables for another Python process.

    They are those of this process, with a module path in PYTHONPATH. PYTHONSAFEPATH makes child
    processes of that process ignore the current folder, too (from Python 3.11 on).

    Args:
        path: folders for PYTHONPATH of another interpreter, for which variables that are valid only
            for this one are left out; None: a process of this interpreter gets `sys.path`.
    """
    if path is None:
        path = sys.path
        variables = dict(os.environ)
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


def venv_of(executable: str) -> Path | None:
    """Return the folder of an interpreter's virtual environment; None if it has none."""
    folder = Path(executable).absolute().parent.parent
    return folder if (folder / "pyvenv.cfg").is_file() else None


def without_processes(python: str) -> str:
    """Return the error message for `num_processes=0` with another interpreter, without the key."""
    return (
        f"must be at least 1 with python={python}: another interpreter can't simulate in a process "
        "of rlcore's, got 0"
    )


@cache
def query_interpreter(python: str) -> Interpreter:
    """Start another interpreter of any version, and return its versions. Results are cached.

    Raises:
        AssetError: there is no interpreter at this path, it does not answer, or it is reached by a
            link that hides its virtual environment.
    """
    path = executable_of(python)
    if os.path.isdir(python) and not os.path.lexists(path):
        raise AssetError(f"{python} is no virtual environment: it has no bin/python")
    target = os.path.join(os.path.dirname(path), os.readlink(path)) if os.path.islink(path) else ""
    if target and venv_of(path) is None and venv_of(target) is not None:
        raise AssetError(
            f"{path} is a link to the Python of an environment: started by it, Python doesn't know "
            "its environment",
            hint=f"name {target} itself",
        )
    try:
        process = subprocess.Popen(
            [path, "-c", _QUERY],
            env=environment(()),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        # a link to nothing was made on another machine
        where = f"{os.path.realpath(path)}: " if os.path.islink(path) else ""
        reason = error.strerror if isinstance(error, OSError) else error
        raise AssetError(f"{path} is no Python interpreter: {where}{reason}") from None
    with process:
        try:
            output, errors = process.communicate(timeout=LOOK_SECONDS)
        except subprocess.TimeoutExpired:
            raise AssetError(f"{path} did not report its version in {LOOK_SECONDS:g} s") from None
        finally:  # a wrapper script may leave the interpreter running: kill its process group
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
    for line in output.splitlines():
        if line.startswith(_ANSWER):
            answer = json.loads(line.removeprefix(_ANSWER))
            return Interpreter(path, answer["version"], answer["packages"])
    last = errors.strip().rpartition("\n")[2][:200]
    raise AssetError(
        f"{path} is no Python interpreter: it ends with code {process.returncode}: {last}"
    )
