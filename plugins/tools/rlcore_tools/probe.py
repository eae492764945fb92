"""Import a third-party plugin in a subprocess first, and cache the result.

A plugin that crashes, ends its process, hangs or prints without end would break every command. So
it is tried in a subprocess once, and again after its files changed or pip installed something.
Faults that Python can catch (an exception, `sys.exit`) are left to the registry.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rlcore import __version__
from rlcore.contracts.errors import PluginError
from rlcore.plugins.entry_points import Installed

SECONDS = 30.0
"""Longest time of the import in seconds. It should be short: a plugin module holds strings only."""
SLOW_SECONDS = 2.0
"""Import time in seconds above which the user is told, as every command waits for the import."""
OUTPUT_BYTES = 2**16
"""Most bytes that the import may write to stdout and stderr."""
PACKAGES = Path(sysconfig.get_path("purelib"))
_DONE = 77  # exit code of a completed probe; a plugin that exits by itself has another one
_PROBE = (
    "import json, sys; given = json.loads(sys.argv[1]); sys.path[:] = given.pop(0)\n"
    "from rlcore_tools import probe; probe.try_here(*given)"
)


def try_plugin(plugin: Installed) -> str:
    """Return a remark if importing the plugin is slow, else an empty text.

    Raises:
        PluginError: importing it would end or block this process.
    """
    seconds, fault = outcome(plugin)
    if fault:
        raise PluginError(
            f"{fault} when it is imported; RLCORE_BLOCK_PLUGINS={plugin.name} leaves it out"
        )
    if seconds <= SLOW_SECONDS:
        return ""
    return (
        f"importing it took {seconds:.1f} s, for which every command waits: name heavy modules by "
        "strings"
    )


def outcome(plugin: Installed) -> tuple[float, str]:
    """Return (import time in seconds, fault) of a plugin; the fault is empty if there is none.

    The result comes from the cache if the plugin's files and site-packages are unchanged.
    """
    seen = _stamps(plugin.value.partition(":")[0])
    key = f"{plugin.value} {sys.prefix} {__version__}"
    kept = memory() / "plugins" / f"{hashlib.sha256(key.encode()).hexdigest()[:16]}.json"
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
        told = json.loads(kept.read_bytes())
        if told["seen"] == seen:
            return float(told["seconds"]), str(told["fault"])
    seconds, fault = _tried(plugin)
    with contextlib.suppress(OSError):
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps({"seconds": seconds, "fault": fault, "seen": seen}))
    return seconds, fault


def memory() -> Path:
    """Return the user's cache folder of rlcore, which holds the results of probes and checks."""
    caches = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(caches) / "rlcore"


def _stamps(module: str) -> dict[str, Any]:
    """Return size and modification time of the module's neighbour files and of site-packages.

    A change of these makes a cached result invalid. Nothing is imported.
    """
    top, *inner = module.split(".")
    found = find_spec(top)
    if found is None or found.origin is None:
        return {}
    files = [*Path(found.origin).parent.joinpath(*inner[:-1]).glob("*.py")] if inner else []
    stats = {str(path): path.stat() for path in (*files, Path(found.origin), PACKAGES)}
    return {path: [stat.st_size, stat.st_mtime_ns] for path, stat in sorted(stats.items())}


def _tried(plugin: Installed) -> tuple[float, str]:
    """Import a plugin and call its listing hooks in a subprocess; return (seconds, fault)."""
    with tempfile.TemporaryDirectory() as folder, open(f"{folder}/said", "w+b") as said:
        result, named = f"{folder}/seconds", (plugin.name, plugin.value)
        process = subprocess.Popen(
            [sys.executable, "-X", "faulthandler", "-c", _PROBE,
             json.dumps([sys.path, named, result])],
            stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True,
        )  # fmt: skip
        began, fault = time.monotonic(), ""
        try:
            while not fault and process.poll() is None:
                time.sleep(0.01)
                if os.fstat(said.fileno()).st_size > OUTPUT_BYTES:
                    fault = f"writes more than {OUTPUT_BYTES // 1024} KiB"
                elif _now(process.pid) - began > SECONDS:
                    fault = f"has not ended after {SECONDS:g} s"
                    process.send_signal(signal.SIGABRT)  # faulthandler prints the traceback
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        process.wait(5)
        finally:
            with contextlib.suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
            code = process.wait()
        if not fault and code == _DONE:
            return float(Path(result).read_text()), ""
        if not fault:
            how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
            fault = f"ends the process with {how}"
        said.seek(0)
        at = re.search(r'File "(.+)", line (\d+)', said.read(OUTPUT_BYTES).decode(errors="replace"))
        return 0.0, fault + (f" ({at[1]}:{at[2]})" if at else "")


def try_here(named: tuple[str, str], result: str) -> None:
    """Import a plugin, call its listing hooks, write the seconds to a file, and end the process.

    The entry point of the subprocess. It ends with :func:`os._exit`, so that handlers and threads
    of the plugin can't delay it.

    Args:
        named: name and value of the plugin's entry point.
        result: path of the file to write.
    """
    from rlcore.plugins.registry import Registry

    began = _now(os.getpid())
    Registry.load([Installed(*named)], environ={})
    Path(result).write_text(str(_now(os.getpid()) - began))
    os._exit(_DONE)


def _now(process: int) -> float:
    """Return a clock in seconds, without the time that a process waited for a CPU on Linux."""
    with contextlib.suppress(OSError):  # only Linux has this file, and only for live processes
        waited = int(Path(f"/proc/{process}/schedstat").read_text().split()[1])
        return time.monotonic() - waited / 1e9
    return time.monotonic()
