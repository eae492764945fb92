"""Play the episodes of the next update while the actor learns (`runner.loop=async`).

    env and rollout workers   | rollout 0 | rollout 1 | rollout 2 | rollout 3 | ...
    weights that act          |     0     |     0     |     1     |     2     |
    actor                     |           | update 0  | update 1  | update 2  | ...

Counts decide which weights act, never timing: the episodes of update e are played with the weights
after max(0, e - 1) updates. So a run repeats to the bit, on any backend. Update e and rollout e + 1
begin together, and the next pair begins when both have ended: rollouts never run further ahead, and
no episode is thrown away for its age.

A checkpoint also has what the rollout ahead of it was played with: the weights before the last
update, and the task weights at that time. A resumed run plays that rollout again, exactly.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from rlcore.runs.ahead import AHEAD
from rlcore.training.limits import goes_on
from rlcore.training.session import Session
from rlcore.training.stages import Played, count_rollout, count_update, play


class AsyncLoop:
    """The stages of a run whose rollouts and updates overlap.

    Args:
        session: the run.
        stopped: returns whether the run was asked to stop.

    Attributes:
        session: the run.
    """

    def __init__(self, session: Session, stopped: Callable[[], bool]) -> None:
        self.session = session
        self._stopped = stopped
        self._ahead: Played | None = None

    def rollout(self, update: int) -> dict[str, float]:
        """Return the metrics of the episodes of an update. The actors hold their trajectory.

        The first episodes of a session are played now, all others were played ahead.
        """
        if self._ahead is None:
            self._ahead = self._play_first(update)
        played = self._ahead
        self._ahead = None
        metrics = count_rollout(self.session, played)
        return {**metrics, "rollout/staleness": float(played.staleness)}

    def _play_first(self, update: int) -> Played:
        """Play the first episodes of this session, as they were played before an interruption."""
        session = self.session
        current = session.steering
        staleness = 0
        if session.ahead is not None and session.latest is not None:
            session.group.load_previous_weights(session.folder.checkpoints / session.latest / AHEAD)
            session.steering = replace(current, **session.ahead)
            staleness = 1
        try:
            played = play(session, update, self._stopped, staleness)
        finally:
            session.steering = current
        with session.clock.measure("sync"):
            session.group.send_trajectory()
            session.group.sync(keep_previous=True)
        return played

    def update(self, update: int) -> dict[str, float]:
        """Make a policy update while the next episodes are played, and return its metrics.

        Besides those of the synchronous loop these are `time/overlap`, the seconds in which both
        were at work (0 if all workers share a process), and the seconds in which the actor waited
        for the episodes (`time/actor_waited`) or the rollout workers for the actor
        (`time/rollout_waited`).
        """
        session = self.session
        group = session.group
        session.ahead = {"task_weights": session.steering.task_weights}
        begin = time.perf_counter()
        finish = group.begin_update(update, session.steering.lr_factors)
        seconds = 0.0
        if self._another_follows(update):
            self._ahead = play(session, update + 1, self._stopped, staleness=1)
            seconds = self._ahead.seconds
        with (
            session.clock.measure("update"),
            session.progress.phase(f"update {update + 1}", quiet=True),
        ):
            metrics = finish()
        elapsed = time.perf_counter() - begin
        with session.clock.measure("sync") as sync_time:
            if self._ahead is not None:
                group.send_trajectory()
            group.sync(keep_previous=True)
        learned = metrics["time/update"]
        metrics["time/sync"] = sync_time.seconds
        played_ahead = self._ahead is not None
        metrics["time/overlap"] = max(0.0, seconds + learned - elapsed)
        metrics["time/actor_waited"] = max(0.0, elapsed - learned) if played_ahead else 0.0
        metrics["time/rollout_waited"] = max(0.0, elapsed - seconds) if played_ahead else 0.0
        count_update(session, update, metrics)
        return metrics

    def _another_follows(self, update: int) -> bool:
        """Return whether an update follows this one, as far as is known before it has ended."""
        session = self.session
        if self._stopped() or session.steering.stopped:
            return False
        return goes_on(session.config.runner, update + 1, session.totals.env_steps)
