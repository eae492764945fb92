"""Look up the backend that runs the workers, a component chosen by `cluster.backend`.

    local   all workers in this process, so that pdb works (rlcore.workers.local_group)
    NAME    a plugin's backend: a process per worker, on one or several machines

Every plan needs the list of machines, so the component's `spec` answers that without heavy imports
(:func:`rlcore.placement.find_inventory`). Everything else is a method of its `target`.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from rlcore.placement.machines import require_backend
from rlcore.plugins.import_target import load_target

if TYPE_CHECKING:
    from rlcore.config.schema import ClusterConfig, RunConfig
    from rlcore.workers.group import WorkerGroup
    from rlcore.workers.worker_specs import WorkerSpecs


class Backend(Protocol):
    """Interface of a backend. It is constructed without arguments, which starts nothing."""

    def session(self, cluster: ClusterConfig) -> AbstractContextManager[None]:
        """Join the cluster at `cluster.address`, or start one, for the duration of the context.

        Workers of one or several runs share the cluster. Nested sessions use the cluster of the
        outermost one, which leaves or ends it.

        Raises:
            UserError: no cluster answers at the address, or none can be started.
        """

    def check_address(self, address: str, timeout: float) -> None:
        """Check that a cluster answers at an address within `timeout` seconds.

        Raises:
            ConfigError: the address is malformed.
            WorkerError: no cluster answers.
        """

    def check_nodes(self, config: RunConfig, worker_specs: WorkerSpecs, runs: Path) -> None:
        """Check that each node has the files that its workers need, before a run writes anything.

        Args:
            runs: the parent of the run's folder. All nodes with a policy must share it, because
                workers write and read checkpoints there.

        Raises:
            AssetError: a node lacks a file or the folder; the message names both.
        """

    def make_group(self, worker_specs: WorkerSpecs) -> WorkerGroup:
        """Return the group of workers, not yet started. Its `start` opens a :meth:`session`."""


def load_backend(cluster: ClusterConfig) -> Backend:
    """Return the configured backend of a run.

    Raises:
        PluginError: the backend does not exist, or can't be imported.
    """
    backend: Backend = load_target(require_backend(cluster).target)()
    return backend


def make_group(worker_specs: WorkerSpecs) -> WorkerGroup:
    """Return the configured backend's group of workers, not yet started."""
    return load_backend(worker_specs.cluster).make_group(worker_specs)
