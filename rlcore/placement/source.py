"""Which machines a run is planned for: this one, those of the Ray cluster it joins, or ones that
are only described. Knows no Ray; whoever has joined a cluster is asked by name.
"""

from __future__ import annotations

import sys

from rlcore.config.schema import ClusterConfig
from rlcore.errors import PlacementError
from rlcore.placement.inventory import Inventory
from rlcore.placement.pretend import KEY, pretended
from rlcore.targets import load_target

JOINED = "rlcore.workers.joined:joined"
CURRENT = "rlcore.workers.joined:current"


def joins(cluster: ClusterConfig) -> bool:
    """Whether a run joins a Ray cluster that others have started."""
    return cluster.backend == "ray" and cluster.address not in (None, "local")


def find_inventory(cluster: ClusterConfig, *, only_look: bool = False) -> Inventory:
    """The machines of a run, in rank order.

    Args:
        only_look: nothing is going to be started (a dry run): machines that are only described
            will do, and nodes that have not joined are not waited for.

    Raises:
        PlacementError: nodes that don't join, or differ; described machines where a run is meant.
        WorkerError: no cluster answers.
    """
    if cluster.inventory is not None:
        if not only_look:
            raise PlacementError(
                f"{KEY} describes machines to plan for, and nothing can run on them, got "
                f"{cluster.inventory!r}",
                hint="add --dry-run, or leave it out",
            )
        return pretended(cluster.inventory)
    if joins(cluster):
        found: Inventory = load_target(JOINED)(cluster, wait=not only_look)
        return found
    if cluster.backend == "ray" and "ray" in sys.modules:
        # this very process may have joined a cluster before; alone on its node, it is this machine
        current: Inventory | None = load_target(CURRENT)(cluster)
        if current is not None:
            return current
    return Inventory.local()
