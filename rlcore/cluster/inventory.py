"""Find the machines that a run is planned for: this one, the nodes of the Ray cluster it joins, or
described ones that do not exist here. Light: Ray is imported only to query a cluster."""

from __future__ import annotations

import sys

from rlcore.config.schema import ClusterConfig
from rlcore.contracts.errors import PlacementError
from rlcore.placement.described_nodes import KEY, pretended
from rlcore.placement.inventory import Inventory, joins


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
        from rlcore.cluster.nodes import join_cluster

        return join_cluster(cluster, wait=not only_look)
    if cluster.backend == "ray" and "ray" in sys.modules:
        # this very process may have joined a cluster before; alone on its node, it is this machine
        from rlcore.cluster.nodes import current

        found = current(cluster)
        if found is not None:
            return found
    return Inventory.local()
