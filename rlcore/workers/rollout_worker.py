"""Act with a policy: the rollout worker. It has no optimizer and gets its weights from the actor.

consumes   obs/RANK/STAGE/PART          observations (EnvMessage)
produces   act/RANK/STAGE/PART          actions (see rlcore.rollout.converse)
consumes   weights/ROUTE/RANK           the actor's weights, or those of a relaying worker
produces   trajectory/RANK/ACTOR_RANK   columns for each actor rank, which are then dropped

In the first two, RANK is that of the env worker.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rlcore.contracts.errors import WorkerError
from rlcore.rollout.messages import Conversation, RolloutJob, RolloutResult
from rlcore.workers.policy_worker import PolicyWorker, PolicyWorkerSettings

if TYPE_CHECKING:
    from torch import Tensor

    from rlcore.placement.routes import WeightRoute


class RolloutWorker(PolicyWorker):
    """Worker that collects trajectories with the current policy."""

    def __init__(self, settings: PolicyWorkerSettings) -> None:
        super().__init__(settings)
        self._received_version: int | None = None
        self._previous: dict[str, Tensor] = {}
        self._columns: list[int] = []

    def converse(self, job: RolloutJob) -> Conversation:
        """Play the job's episodes, and store their trajectory in this worker.

        Columns `job.order.stay` of the previous trajectory are stored with it.

        Returns:
            the :class:`RolloutResult` without trajectory and columns.

        Raises:
            WorkerError: this worker's weights do not have the required version.
        """
        from rlcore.rollout.converse import converse

        if job.weights is not None and job.weights != self._received_version:
            received = self._received_version
            actual = "no version" if received is None else f"version {received}"
            raise WorkerError(
                f"a rollout worker must act with version {job.weights} of the weights, but has "
                f"received {actual}",
                hint="a loop that changes the actor's weights must call group.sync() before the "
                "next rollout",
            )
        self.policy.set_progress(job.order.update)
        result = yield from converse(self.policy, job, self.spans)
        self._store_columns(result, job.order.stay)
        self._gathered = job.order.keep
        return replace(result, trajectory=None, columns=[])

    def _store_columns(self, result: RolloutResult, stay: frozenset[int]) -> None:
        """Store the result's columns, and the previous trajectory's columns that stay.

        Columns are identified by number, so an interrupted conversation can be repeated unchanged.
        """
        from rlcore.rollout.columns import append, take

        parts = []
        numbers = []
        if self._trajectory is not None and stay:
            indices = [index for index, number in enumerate(self._columns) if number in stay]
            parts.append(take(self._trajectory, indices))
            numbers += [self._columns[index] for index in indices]
        if result.trajectory is not None:
            parts.append(result.trajectory)
            numbers += result.columns
        self._trajectory = append(parts) if len(parts) > 1 else next(iter(parts), None)
        self._columns = numbers

    def pull(
        self,
        rank: int,
        routes: Sequence[WeightRoute],
        relay_routes: Sequence[WeightRoute],
        timeout: float,
        announcement_timeout: float,
        bucket: int,
        keep_previous: bool = False,
    ) -> Conversation:
        """Receive the actor's weights, relay them over `relay_routes`, and return their version.

        Args:
            rank: rank of this worker.
            routes: routes of which this worker is a reader.
            relay_routes: routes of which this worker is the sender: to other workers on its node.
            timeout: seconds to wait for a bucket.
            announcement_timeout: seconds to wait for the announcement of the transfer.
            bucket: size of a relayed bucket in bytes.
            keep_previous: whether to keep the trained weights that are replaced, on the host.
        """
        from rlcore.transport.layout import trained_copies
        from rlcore.transport.weights import receive_weights, send_weights

        if keep_previous:
            self._previous = trained_copies(self._current_policy)
        self._received_version = None  # an interrupted transfer leaves a mix of versions
        connections = self._weight_connections(timeout, bucket)
        announcement = yield from receive_weights(
            self._current_policy,
            reader=rank,
            routes=routes,
            connections=connections,
            timeout=announcement_timeout,
            locate=self._host_copies.resident,
        )
        if relay_routes:
            yield from send_weights(
                self._current_policy,
                version=announcement.version,
                subset=announcement.subset,
                routes=relay_routes,
                connections=connections,
                locate=self._host_copies.resident,
            )
        self._received_version = announcement.version
        return self._received_version

    def save_previous_weights(self, file: str) -> None:
        """Write the trained weights that the last :meth:`pull` replaced."""
        from rlcore.runs.ahead import write_weights
        from rlcore.runs.checkpoint import writing

        with writing(Path(file)):
            write_weights(Path(file), self._previous)

    def load_previous_weights(self, file: str, version: int) -> None:
        """Act with the trained weights in a file, under the given version."""
        from rlcore.runs.ahead import read_weights
        from rlcore.transport.layout import set_trained

        set_trained(self._current_policy, read_weights(Path(file)), file)
        self._received_version = version

    def send_trajectory(self, keys: Sequence[str]) -> Conversation:
        """Send the trajectory's columns to the actor ranks, and drop them here.

        Args:
            keys: keys of the queues, one for each actor rank.

        Raises:
            WorkerError: no trajectory was gathered since the last call.
        """
        from rlcore.transport.trajectory import send_trajectory

        yield from send_trajectory(self._consume_trajectory("send"), self._columns, keys)

    def load(self, path: str) -> None:
        """Replace the policy by a saved one.

        Jobs that require a version of the weights are refused until the next :meth:`pull`, because
        the loaded weights may differ from the actor's.
        """
        super().load(path)
        self._received_version = None
