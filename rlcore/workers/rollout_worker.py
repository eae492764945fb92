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
from typing import TYPE_CHECKING

from rlcore.contracts.errors import WorkerError
from rlcore.rollout.messages import Conversation, RolloutJob, RolloutResult
from rlcore.workers.policy_worker import PolicyWorker, PolicyWorkerSettings

if TYPE_CHECKING:
    from rlcore.placement.routes import WeightRoute


class RolloutWorker(PolicyWorker):
    """Worker that collects trajectories with the current policy."""

    def __init__(self, settings: PolicyWorkerSettings) -> None:
        super().__init__(settings)
        self._pulled: int | None = None
        self._columns: list[int] = []

    def converse(self, job: RolloutJob) -> Conversation:
        """Carry out the job, and store its trajectory in this worker.

        Columns `job.order.stay` of the previous trajectory are stored with it.

        Returns:
            the :class:`RolloutResult` without trajectory and columns.

        Raises:
            WorkerError: this worker's weights do not have the required version.
        """
        from rlcore.rollout.converse import converse

        if job.weights is not None and job.weights != self._pulled:
            mine = "of no version" if self._pulled is None else f"version {self._pulled}"
            raise WorkerError(
                f"a rollout worker was asked to act with weights {mine} while version "
                f"{job.weights} is due",
                hint="a loop that changes the actor's weights must call group.sync() before the "
                "next rollout",
            )
        self.policy.set_progress(job.order.update)
        result = yield from converse(self.policy, job)
        self._keep(result, job.order.stay)
        self._gathered = job.order.keep
        return replace(result, trajectory=None, columns=[])

    def _keep(self, result: RolloutResult, stay: frozenset[int]) -> None:
        """Store the result's columns, and those of the previous trajectory whose numbers stay.

        Columns are identified by number, so an interrupted conversation can be repeated as it was.
        """
        from rlcore.rollout.columns import append, take

        parts, numbers = [], []
        if self._trajectory is not None and stay:
            places = [place for place, number in enumerate(self._columns) if number in stay]
            parts.append(take(self._trajectory, places))
            numbers += [self._columns[place] for place in places]
        if result.trajectory is not None:
            parts.append(result.trajectory)
            numbers += result.columns
        self._trajectory = append(parts) if len(parts) > 1 else next(iter(parts), None)
        self._columns = numbers

    def pull(
        self,
        rank: int,
        routes: Sequence[WeightRoute],
        hands_on: Sequence[WeightRoute],
        timeout: float,
        patience: float,
        bucket: int,
    ) -> Conversation:
        """Receive the actor's weights, relay them if asked to, and return their version.

        Args:
            rank: rank of this worker.
            routes: routes of which this worker is a reader.
            hands_on: routes of which this worker is the sender: to other workers on its node.
            timeout: seconds to wait for a bucket.
            patience: seconds to wait for the announcement of the transfer.
            bucket: size in bytes of a bucket that is relayed.
        """
        from rlcore.transport.weights import receive_weights, send_weights

        self._pulled = None  # an interrupted transfer leaves a mix of versions
        connections = self._connected(timeout, bucket)
        announcement = yield from receive_weights(
            self._held,
            reader=rank,
            routes=routes,
            connections=connections,
            timeout=patience,
            locate=self._copies.resident,
        )
        if hands_on:
            yield from send_weights(
                self._held,
                version=announcement.version,
                subset=announcement.subset,
                routes=hands_on,
                connections=connections,
                locate=self._copies.resident,
            )
        self._pulled = announcement.version
        return self._pulled

    def hand_over(self, keys: Sequence[str]) -> Conversation:
        """Send the trajectory's columns to the actor ranks, and drop them here.

        Args:
            keys: keys of the queues, one for each actor rank.

        Raises:
            WorkerError: no trajectory was gathered since the last time.
        """
        from rlcore.transport.trajectory import send_trajectory

        yield from send_trajectory(self._use_up("hand over"), self._columns, keys)

    def load(self, path: str) -> None:
        """Replace the policy by a saved one.

        Jobs that require a version of the weights are refused until the next :meth:`pull`.
        """
        super().load(path)
        self._pulled = None
