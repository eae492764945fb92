"""Act with a policy: the rollout worker. It has no optimizer; its weights are the actor's.

consumes   obs/RANK/STAGE/PART (EnvMessage), produces act/... (see rlcore.rollout.converse)
consumes   weights/ROUTE/RANK  the actor's weights; it does not act before the required version
produces   trajectory/RANK/ACTOR_RANK, which it then drops
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
    """Acts."""

    def __init__(self, settings: PolicyWorkerSettings) -> None:
        super().__init__(settings)
        self._pulled: int | None = None
        self._columns: list[int] = []

    def converse(self, job: RolloutJob) -> Conversation:
        """Carry out the job; keeps the trajectory, together with those columns of the one
        before that must stay; returns the :class:`RolloutResult` without them.

        Raises:
            WorkerError: the weights here are not of the required version.
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
        """Keep columns by number, so that an interrupted conversation can simply be repeated."""
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
        """Take over the actor's weights; returns their version.

        Args:
            rank: of this worker.
            routes: those that end here.
            hands_on: those that start here: to others on this node.
            timeout: seconds to wait for a bucket.
            patience: seconds to wait until the first one is announced.
            bucket: bytes of one that is handed on.
        """
        from rlcore.transport.weights import receive_weights, send_weights

        self._pulled = None  # a transfer that breaks off leaves neither the old nor the new ones
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
        """Send the trajectory's columns through the queues `keys`, one for each actor rank, and
        drop them."""
        from rlcore.transport.trajectory import send_trajectory

        yield from send_trajectory(self._use_up("hand over"), self._columns, keys)

    def load(self, path: str) -> None:
        """A saved policy; it may not act until weights of a version have come for it."""
        super().load(path)
        self._pulled = None
