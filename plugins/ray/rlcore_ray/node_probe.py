"""Functions that query a node of a cluster. Imports nothing of rlcore at module level.

They are sent to the nodes by value, because a node may have another version of rlcore or none.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import pickle
import platform
import sys
from typing import Any

GROUP = "rlcore.plugins"  # as rlcore.plugins.entry_points has it


def look() -> dict[str, Any]:
    """Describe a node: `host`, `python`, `versions` of rlcore and of the distributions with
    plugins, `devices` (as CUDA_VISIBLE_DEVICES has them; None: not set), network `interfaces` with
    their addresses, `memory` and `gpu_memory` in bytes (0 without rlcore there)."""
    found = {
        "host": platform.node(),
        "python": platform.python_version(),
        "versions": _versions(),
        "devices": os.environ.get("CUDA_VISIBLE_DEVICES"),
        "executable": sys.executable,
        "interfaces": _interfaces(),
        "memory": 0,
        "gpu_memory": 0,
    }
    try:
        inventory = importlib.import_module("rlcore.placement.inventory")
        found["memory"] = inventory.local_memory()
        found["gpu_memory"] = inventory.local_gpus()[1]
    except Exception:  # of another version: the versions tell
        pass
    return found


def _interfaces() -> dict[str, list[str]]:
    """Return the addresses of each network interface, by its name."""
    import psutil

    found = psutil.net_if_addrs().items()
    return {name: [one.address for one in addresses] for name, addresses in found}


def _versions() -> dict[str, str]:
    """Return `{distribution: version}`; rlcore has "none" if it can't be imported."""
    points = importlib.metadata.entry_points(group=GROUP)
    versions = {p.dist.name: p.dist.version for p in points if p.dist is not None}
    try:
        versions["rlcore"] = importlib.import_module("rlcore").__version__
    except Exception:
        versions["rlcore"] = "none"
    return versions


def held(levels: dict[str, int]) -> dict[str, dict[str, int] | None]:
    """List what is at these paths: `{name: bytes}` of the files of a folder, so many levels deep,
    with -1 for each folder inside; `{"": bytes}` of a file; None if nothing is there. Names that
    begin with a dot, which no loader reads, are left out."""
    return {path: _files(os.path.expanduser(path), deep) for path, deep in levels.items()}


def _files(path: str, levels: int) -> dict[str, int] | None:
    if os.path.isfile(path):
        return {"": os.path.getsize(path)}
    if not os.path.isdir(path):
        return None
    found: dict[str, int] = {}
    for name in os.listdir(path) if levels else ():
        inside = None if name.startswith(".") else _files(os.path.join(path, name), levels - 1)
        if inside is not None:
            found |= {f"{name}/{below}": size for below, size in inside.items() if below}
            found[name] = inside.get("", -1)
    return found


def ailing(config: bytes, plugins: set[str], targets: list[str], packages: list[str]) -> list[str]:
    """Return what a run lacks on this node, as sentences.

    Only if no package and no target is missing, the plugins' doctors check the configuration.

    Args:
        config: pickled configuration.
        plugins: plugins whose doctors are called.
        targets: import paths, "module:attr".
        packages: distributions whose files must exist.
    """
    missing = [line for name in packages for line in _gone(name)]
    for target in targets:
        try:
            importlib.import_module("rlcore.plugins.import_target").load_target(target)
        except Exception as error:  # a plugin may fail in any way
            missing.append(f"code: {str(error).splitlines()[0]}")
    if missing:
        return missing
    registry = importlib.import_module("rlcore.plugins.registry").load_plugins()
    found = registry.doctor(pickle.loads(config), plugins)
    return [f"{item['name']}: {item['detail']}" for item in found if item["status"] == "missing"]


def _gone(package: str) -> list[str]:
    """A line where files of an installed package are not there; one may be as it was in a folder of
    its own (`pip install -e`), which names none."""
    try:
        files = importlib.metadata.files(package) or []
    except importlib.metadata.PackageNotFoundError:
        return [f"package {package}"]
    code = [file for file in files if file.suffix == ".py"]
    gone = [str(file) for file in code if not os.path.isfile(file.locate())]
    return [f"{len(gone)} of {len(code)} files of package {package}: {gone[0]}"] if gone else []
