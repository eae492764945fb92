"""What is asked of each node of a cluster. Travels to the nodes by value, as these may have another
rlcore or none: it imports nothing of ours at the top.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import platform
import sys
from typing import Any

GROUP = "rlcore.plugins"  # as rlcore.installed has it


def look() -> dict[str, Any]:
    """What a node is and has: `host`, `python`, `versions` of rlcore and of the distributions with
    plugins, `devices` (as CUDA_VISIBLE_DEVICES has them; None: not set), network `interfaces` with
    their addresses, `memory` and `gpu_memory` in bytes (0 where rlcore is not there to tell)."""
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
    """Addresses by network interface."""
    import psutil

    found = psutil.net_if_addrs().items()
    return {name: [one.address for one in addresses] for name, addresses in found}


def _versions() -> dict[str, str]:
    """`{distribution: version}`; rlcore's own "none" where it can't be imported."""
    points = importlib.metadata.entry_points(group=GROUP)
    versions = {p.dist.name: p.dist.version for p in points if p.dist is not None}
    try:
        versions["rlcore"] = importlib.import_module("rlcore").__version__
    except Exception:
        versions["rlcore"] = "none"
    return versions


def absent(paths: list[str]) -> list[str]:
    """Those of `paths` that are not there."""
    return [path for path in paths if not os.path.exists(os.path.expanduser(path))]


def ailing(config: Any, plugins: set[str]) -> list[str]:
    """What the doctors of these plugins find missing for a run, in words."""
    registry = importlib.import_module("rlcore.plugins").load_plugins()
    found = registry.doctor(config, plugins)
    return [f"{item['name']}: {item['detail']}" for item in found if item["status"] == "missing"]
