"""Look up the backend that runs the workers: a component, chosen by `cluster.backend`. Light.

    local   all workers in this process: pdb works (rlcore.workers.local_group)
    NAME    a plugin's: a process per worker, on as many machines as it knows of

Which machines there are is a light question, which every plan asks: its `spec` answers
(:func:`rlcore.placement.find_inventory`). The rest is asked of its `target`, before and in a run.
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
    """What runs the workers. Made without arguments; making it starts nothing."""

    def session(self, cluster: ClusterConfig) -> AbstractContextManager[None]:
        """Hold what the workers of one or several runs share: join the cluster at
        `cluster.address`, or start one. Sessions inside share it; the outermost ends it.

        Raises:
            UserError: nobody answers there, or it can't be started.
        """

    def require_answer(self, address: str, timeout: float) -> None:
        """Ask whether a cluster answers at an address, for `timeout` seconds at most.

        Raises:
            ConfigError: an address of another form.
            WorkerError: nobody answers.
        """

    def require_equipped(
        self, config: RunConfig, worker_specs: WorkerSpecs, runs: Path
    ) -> dict[int, frozenset[str]]:
        """Check that each node has what its workers read, before anything of a run is written.

        Args:
            runs: where the run's folder is, or is going to be.

        Returns:
            :attr:`rlcore.workers.worker_specs.WorkerSpecs.apart`.

        Raises:
            AssetError: says which node lacks what.
        """

    def make_group(self, worker_specs: WorkerSpecs) -> WorkerGroup:
        """Make the group of workers; nothing is started yet. Its `start` opens a session of its
        own."""


def backend_of(cluster: ClusterConfig) -> Backend:
    """Return the backend of a run.

    Raises:
        PluginError: it does not exist, or can't be loaded.
    """
    backend: Backend = load_target(require_backend(cluster).target)()
    return backend


def make_group(worker_specs: WorkerSpecs) -> WorkerGroup:
    """Make the group of the configured backend; nothing is started yet."""
    return backend_of(worker_specs.cluster).make_group(worker_specs)
