"""Find the machines of a run: this one, or the nodes of the Ray cluster that it joins.

Light: Ray is imported only to query a cluster.
"""

from __future__ import annotations

import sys

from rlcore.config.schema import ClusterConfig
from rlcore.placement import Inventory, joins


def find_inventory(cluster: ClusterConfig, *, only_look: bool = False) -> Inventory:
    """See :func:`rlcore.placement.find_inventory`.

    Raises:
        PlacementError: too few nodes joined, or their versions differ.
        WorkerError: no cluster answers.
    """
    if joins(cluster):
        from rlcore_ray.nodes import join_cluster

        return join_cluster(cluster, wait=not only_look)
    if "ray" in sys.modules:
        # this process may already have joined a cluster, in an outer session
        from rlcore_ray.nodes import joined_nodes

        inventory = joined_nodes(cluster)
        if inventory is not None:
            return inventory
    return Inventory.local()
