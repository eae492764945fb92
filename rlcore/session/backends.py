"""Make the group of workers of the configured backend. Imports Ray only if it is the one."""

from __future__ import annotations

from rlcore.workers.group import WorkerGroup
from rlcore.workers.worker_specs import WorkerSpecs


def make_group(worker_specs: WorkerSpecs) -> WorkerGroup:
    """The group of the configured backend; nothing is started yet."""
    if worker_specs.cluster.backend == "local":
        from rlcore.workers.local_group import LocalGroup

        return LocalGroup(worker_specs)
    from rlcore.cluster.ray_group import RayGroup

    return RayGroup(worker_specs)
