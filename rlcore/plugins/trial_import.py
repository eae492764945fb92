"""Import a third-party plugin in a subprocess first, so that it can't end or block this process.

A plugin that crashes, exits or never returns from its import would break every command. A
successful trial is cached until a file next to the plugin's module changes. Faults that Python
can catch, such as an exception, are left to the registry. Light.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import sys
import sysconfig
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from rlcore.contracts.errors import PluginError
from rlcore.plugins.entry_points import BLOCK, Installed

SECONDS = 30.0
"""Time limit of the import. It should be short: a plugin's module holds strings only."""
_IMPORTED = 77  # exit code of a completed trial; a plugin that exits by itself has another one
_CHILD = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1])\n"
    "from rlcore.plugins.trial_import import import_and_exit; import_and_exit(*sys.argv[2:])"
)


def require_importable(plugin: Installed) -> None:
    """Import a plugin in a subprocess, unless it is known to be importable or has no file.

    Raises:
        PluginError: importing it would end or block this process.
    """
    module = plugin.value.partition(":")[0]
    if module in sys.modules and sys.modules[module].__spec__ is None:  # not from a file
        return
    succeeded = cache_folder() / "plugins" / _fingerprint(module)
    if succeeded.is_file():
        return
    fault = _try_import(module)
    if fault:
        raise PluginError(f"{fault} when it is imported; {BLOCK}={plugin.name} leaves it out")
    with contextlib.suppress(OSError):
        succeeded.parent.mkdir(parents=True, exist_ok=True)
        succeeded.touch()


def cache_folder() -> Path:
    """Return the user's cache folder of rlcore."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rlcore"


def import_and_exit(module: str, limit: str) -> None:
    """Import a module, and end the process. Entry point of the subprocess.

    The standard output is reserved for the traceback of a crash, or of a module that exceeds the
    time limit. The module's own output is discarded.

    Args:
        module: name of the module.
        limit: time limit in seconds.
    """
    import faulthandler

    tracebacks = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    faulthandler.enable(tracebacks)
    faulthandler.dump_traceback_later(float(limit), exit=True, file=tracebacks)
    with contextlib.suppress(BaseException):  # the registry imports it again, and reports errors
        import_module(module)
    os._exit(_IMPORTED)  # not sys.exit: threads and exit handlers of the plugin could delay it


def _try_import(module: str) -> str:
    """Import a module in a subprocess. Return why this failed, or an empty text."""
    import subprocess

    timed_out = f"has not ended after {SECONDS:g} s"
    command = [sys.executable, "-I", "-c", _CHILD, json.dumps(sys.path), module, str(SECONDS)]
    try:
        process = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            errors="replace",
            timeout=SECONDS + 10,
        )
    except subprocess.TimeoutExpired:
        return timed_out
    if process.returncode == _IMPORTED:
        return ""
    fault = timed_out
    if not process.stdout.startswith("Timeout"):
        fault = describe_end(process.returncode)
    frame = re.search(r'File "(.+)", line (\d+)', process.stdout)
    return f"{fault} ({frame[1]}:{frame[2]})" if frame else fault


def describe_end(code: int) -> str:
    """Return how an import ended its process: "ends the process with SIGSEGV", or an exit code."""
    cause = signal.Signals(-code).name if code < 0 else f"exit code {code}"
    return f"ends the process with {cause}"


def _fingerprint(module: str) -> str:
    """Return a digest of a module's name, of the sizes and times of the files next to it, and of
    the time at which packages were last installed or removed.

    Nothing is imported.
    """
    import hashlib

    package, *inner = module.split(".")
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        return package
    file = Path(spec.origin)
    files = sorted(file.parent.joinpath(*inner[:-1]).glob("*.py")) if inner else [file]
    packages = Path(sysconfig.get_path("purelib"))
    if packages.is_dir():  # a system's Python may name a folder that is made with the first package
        files.append(packages)
    stats = [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in files]
    return hashlib.sha256(repr((module, sys.prefix, stats)).encode()).hexdigest()[:16]
