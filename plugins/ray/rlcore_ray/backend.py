"""What core asks of Ray: see :class:`rlcore.workers.backend.Backend`."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

from rlcore.config.schema import ClusterConfig, RunConfig
from rlcore.plugins.registry import load_plugins
from rlcore.workers.worker_specs import WorkerSpecs
from rlcore_ray import cluster as clusters
from rlcore_ray.group import RayGroup
from rlcore_ray.node_files import components_of, require_node_files


class RayBackend:
    """A process per worker, on this machine or on the nodes of a cluster."""

    def session(self, cluster: ClusterConfig) -> AbstractContextManager[None]:
        """Join a cluster, or start one here; nested sessions share it."""
        return clusters.cluster_session(cluster)

    def require_answer(self, address: str, timeout: float) -> None:
        """See :func:`rlcore_ray.cluster.require_answer`."""
        clusters.require_answer(address, timeout)

    def require_equipped(
        self, config: RunConfig, worker_specs: WorkerSpecs, runs: Path
    ) -> dict[int, frozenset[str]]:
        """See :func:`rlcore_ray.node_files.require_node_files`. Nodes have ids where a cluster was
        joined; there is nothing to ask a cluster of the run's own, which starts later."""
        if not any(node.id for node in worker_specs.nodes):
            return {}
        # after a failure nobody else may hold one, and Ray would start or find any by itself
        with clusters.cluster_session(config.cluster):
            chosen = components_of(config, worker_specs, load_plugins())
            return require_node_files(config, worker_specs, chosen, runs)

    def make_group(self, worker_specs: WorkerSpecs) -> RayGroup:
        """See :class:`rlcore_ray.group.RayGroup`."""
        return RayGroup(worker_specs)
