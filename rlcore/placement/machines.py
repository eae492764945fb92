"""Find the machines that a run is planned for: those of its backend, or described ones. Light.

Machines are described (`cluster.inventory`) to plan for a cluster that is elsewhere.
"""

from __future__ import annotations

from rlcore.config.schema import ClusterConfig
from rlcore.contracts.errors import PlacementError, PluginError
from rlcore.contracts.specs import ComponentSpec
from rlcore.placement.inventory import Inventory
from rlcore.plugins.import_target import load_target
from rlcore.plugins.registry import load_plugins


def find_inventory(cluster: ClusterConfig, *, only_look: bool = False) -> Inventory:
    """Return the machines of a run, in rank order.

    Args:
        only_look: plan without starting anything (a dry run). Described machines are allowed, and
            nodes that have not joined are not waited for.

    Raises:
        PlacementError: nodes did not join or differ, or a run is to start on described machines.
        PluginError: the backend is not registered.
        WorkerError: no cluster answers.
    """
    backend = require_backend(cluster)
    if cluster.inventory is not None:
        if not only_look:
            raise PlacementError(
                "cluster.inventory describes machines to plan for, on which nothing can run, got "
                f"{cluster.inventory!r}",
                hint="add --dry-run, or remove cluster.inventory",
            )
        from rlcore.placement.described_nodes import read_inventory  # loads a YAML parser

        return read_inventory(cluster.inventory)
    if backend.spec is None:
        return Inventory.local()
    inventory: Inventory = load_target(backend.spec)(cluster, only_look=only_look)
    return inventory


def require_backend(cluster: ClusterConfig) -> ComponentSpec:
    """Return the registered backend of a run.

    Raises:
        PluginError: no backend of that name is registered. The hint names the command that
            installs it, and the backend that needs no plugin.
    """
    try:
        return load_plugins().get("backend", cluster.backend).spec
    except PluginError as error:
        alternative = "cluster.backend=local needs no plugin: all workers in one process"
        hint = f"{error.hint}; {alternative}" if error.hint else alternative
        raise type(error)(error.message, hint=hint) from None
