"""Find the machines of a run: this one, or the nodes of the Ray cluster it joins. Light: Ray is
imported only to query a cluster."""

from __future__ import annotations

import sys

from rlcore.config.schema import ClusterConfig
from rlcore.placement import Inventory, joins


def find_inventory(cluster: ClusterConfig, *, only_look: bool = False) -> Inventory:
    """See :func:`rlcore.placement.find_inventory`.

    Raises:
        PlacementError: nodes that don't join, or differ.
        WorkerError: no cluster answers.
    """
    if joins(cluster):
        from rlcore_ray.nodes import join_cluster

        return join_cluster(cluster, wait=not only_look)
    if "ray" in sys.modules:
        # this very process may have joined a cluster before; alone on its node, it is this machine
        from rlcore_ray.nodes import current

        found = current(cluster)
        if found is not None:
            return found
    return Inventory.local()
