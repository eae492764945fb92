"""Implement :class:`rlcore.workers.backend.Backend` with Ray."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

from rlcore.config.schema import ClusterConfig, RunConfig
from rlcore.plugins.registry import load_plugins
from rlcore.workers.worker_specs import WorkerSpecs
from rlcore_ray import cluster as clusters
from rlcore_ray.group import RayGroup
from rlcore_ray.node_files import plugin_components, require_node_files


class RayBackend:
    """Backend that runs each worker in a process, on this machine or on the nodes of a cluster."""

    def session(self, cluster: ClusterConfig) -> AbstractContextManager[None]:
        """Join a Ray cluster, or start one on this machine; nested sessions share it."""
        return clusters.cluster_session(cluster)

    def check_address(self, address: str, timeout: float) -> None:
        """See :func:`rlcore_ray.cluster.check_address`."""
        clusters.check_address(address, timeout)

    def check_nodes(self, config: RunConfig, worker_specs: WorkerSpecs, runs: Path) -> None:
        """See :func:`rlcore_ray.node_files.require_node_files`.

        Only the nodes of a joined cluster have ids. Without ids nothing is checked, because the run
        starts its own cluster on this machine later.
        """
        if not any(node.id for node in worker_specs.nodes):
            return
        # after a failure no session may be open, and Ray would start or join any cluster by itself
        with clusters.cluster_session(config.cluster):
            plugins = plugin_components(config, worker_specs, load_plugins())
            require_node_files(config, worker_specs, plugins, runs)

    def make_group(self, worker_specs: WorkerSpecs) -> RayGroup:
        """See :class:`rlcore_ray.group.RayGroup`."""
        return RayGroup(worker_specs)
