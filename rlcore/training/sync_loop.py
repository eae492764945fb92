"""Play the episodes of an update, then train on them (`runner.loop=sync`).

env and rollout workers   | rollout 0 |          | rollout 1 |          | ...
actor                     |           | update 0 |           | update 1 |
"""

from __future__ import annotations

from collections.abc import Callable

from rlcore.training.session import Session
from rlcore.training.stages import count_rollout, count_update, play


class SyncLoop:
    """The stages of a run whose rollouts and updates take turns.

    Args:
        session: the run.
        stopped: returns whether the run was asked to stop.

    Attributes:
        session: the run.
    """

    def __init__(self, session: Session, stopped: Callable[[], bool]) -> None:
        self.session = session
        self._stopped = stopped

    def rollout(self, update: int) -> dict[str, float]:
        """Play the episodes of an update, and return their metrics."""
        return count_rollout(self.session, play(self.session, update, self._stopped))

    def update(self, update: int) -> dict[str, float]:
        """Make a policy update from the gathered episodes, and return its metrics.

        The trajectory moves from the rollout workers to the actors, the actors update the policy,
        and the new weights are synced to the rollout workers. `time/sync` is the time of both
        transfers.
        """
        session = self.session
        with session.clock.measure("sync") as sending_time:
            if session.config.env.train.enable_offload or session.config.env.eval.enable_offload:
                session.group.suspend_envs()
            session.group.send_trajectory()
        with (
            session.clock.measure("update") as update_time,
            session.progress.phase(f"update {update + 1}", quiet=True),
        ):
            metrics = session.group.update(update, session.steering.lr_factors)
        with session.clock.measure("sync") as sync_time:
            session.group.sync()
        metrics["time/update"] = update_time.seconds
        metrics["time/sync"] = sending_time.seconds + sync_time.seconds
        count_update(session, update, metrics)
        return metrics
