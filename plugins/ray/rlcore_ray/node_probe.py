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

GROUP = "rlcore.plugins"  # same as in rlcore.plugins.entry_points


def describe() -> dict[str, Any]:
    """Describe this node.

    Returns:
        `host`; `python`; `versions` of rlcore and of the distributions with plugins; `devices`, the
        value of CUDA_VISIBLE_DEVICES or None; `executable` of Python; `interfaces`, the addresses
        of each network interface; `memory` and `gpu_memory` in bytes, 0 without rlcore.
    """
    facts = {
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
        facts["memory"] = inventory.local_memory()
        facts["gpu_memory"] = inventory.local_gpus()[1]
    except Exception:  # another version of rlcore: the versions show it
        pass
    return facts


def _interfaces() -> dict[str, list[str]]:
    """Return the addresses of each network interface, by its name."""
    import psutil

    return {
        name: [entry.address for entry in entries]
        for name, entries in psutil.net_if_addrs().items()
    }


def _versions() -> dict[str, str]:
    """Return `{distribution: version}`; rlcore has "none" if it can't be imported."""
    points = importlib.metadata.entry_points(group=GROUP)
    versions = {p.dist.name: p.dist.version for p in points if p.dist is not None}
    try:
        versions["rlcore"] = importlib.import_module("rlcore").__version__
    except Exception:
        versions["rlcore"] = "none"
    return versions


def inspect(
    levels: dict[str, int],
    config: bytes,
    plugins: set[str],
    targets: list[str],
    packages: list[str],
) -> tuple[dict[str, dict[str, int] | None], list[str]]:
    """Return :func:`list_files` of `levels`, and :func:`missing_code` of the other arguments."""
    return list_files(levels), missing_code(config, plugins, targets, packages)


def list_files(levels: dict[str, int]) -> dict[str, dict[str, int] | None]:
    """List the files at some paths.

    Args:
        levels: number of levels of folders to list, by path.

    Returns:
        by path: `{relative path: bytes}` of the files of a folder, with -1 for each folder in it;
        `{"": bytes}` of a file; None if nothing is there. Names that begin with a dot, which no
        loader reads, are left out.
    """
    return {path: _files(os.path.expanduser(path), depth) for path, depth in levels.items()}


def _files(path: str, depth: int) -> dict[str, int] | None:
    if os.path.isfile(path):
        return {"": os.path.getsize(path)}
    if not os.path.isdir(path):
        return None
    files: dict[str, int] = {}
    for name in os.listdir(path) if depth else ():
        inside = None if name.startswith(".") else _files(os.path.join(path, name), depth - 1)
        if inside is not None:
            files |= {f"{name}/{below}": size for below, size in inside.items() if below}
            files[name] = inside.get("", -1)
    return files


def missing_code(
    config: bytes, plugins: set[str], targets: list[str], packages: list[str]
) -> list[str]:
    """Describe the code and the assets that a run lacks on this node.

    The plugins' doctors check the configuration only if all packages and targets are there.

    Args:
        config: pickled configuration.
        plugins: plugins whose doctors are called.
        targets: import paths, "module:attr".
        packages: distributions whose Python files must exist.
    """
    missing = [line for name in packages for line in _missing_files_of(name)]
    for target in targets:
        try:
            importlib.import_module("rlcore.plugins.import_target").load_target(target)
        except Exception as error:  # a plugin may fail in any way
            missing.append(f"code: {str(error).splitlines()[0]}")
    if missing:
        return missing
    registry = importlib.import_module("rlcore.plugins.registry").load_plugins()
    rows = registry.doctor(pickle.loads(config), plugins)
    return [f"{row['name']}: {row['detail']}" for row in rows if row["status"] == "missing"]


def _missing_files_of(package: str) -> list[str]:
    """Return a line if Python files of an installed package are missing, else nothing.

    The metadata of an editable installation lists no files, so none can be missing.
    """
    try:
        files = importlib.metadata.files(package) or []
    except importlib.metadata.PackageNotFoundError:
        return [f"package {package}"]
    code = [file for file in files if file.suffix == ".py"]
    missing = [str(file) for file in code if not os.path.isfile(file.locate())]
    if not missing:
        return []
    return [f"{len(missing)} of {len(code)} files of package {package}: {missing[0]}"]
