"""What the two stages of an update, playing its episodes and training on them, have in every loop.

The synchronous loop (:mod:`rlcore.training.sync_loop`) runs them in turn; the asynchronous loop
(:mod:`rlcore.training.async_loop`) plays the next episodes while the actor learns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rlcore.runs.metrics import env_metrics
from rlcore.training.batch import gather_batch
from rlcore.training.evaluate import films
from rlcore.training.gather import Gathered
from rlcore.training.session import Session


@dataclass(frozen=True)
class Played:
    """The episodes of one update. Their trajectory is in the workers.

    Attributes:
        gathered: the merged results of the workers.
        fill: metrics of the group filter, see :func:`rlcore.training.batch.gather_batch`.
        seconds: wall-clock time of the rollout.
        staleness: updates by which the weights that acted were behind.
    """

    gathered: Gathered
    fill: dict[str, float]
    seconds: float
    staleness: int


def play(session: Session, update: int, stopped: Callable[[], bool], staleness: int = 0) -> Played:
    """Play the episodes of one update. The rollout workers hold the trajectory.

    Args:
        stopped: returns whether the run was asked to stop; the batch may then be incomplete.
        staleness: updates by which the weights that act are behind.
    """
    with session.clock.measure("rollout") as rollout_time:
        gathered, fill = gather_batch(session, update, stopped, staleness)
    return Played(gathered, fill, rollout_time.seconds, staleness)


def count_rollout(session: Session, played: Played) -> dict[str, float]:
    """Add a rollout to the run's totals, call the hooks for it, and return its metrics."""
    gathered = played.gathered
    session.note_rendering("train", gathered.render_settings)
    session.report_recovered(gathered.incidents)
    session.totals.env_steps += gathered.env_steps
    session.totals.episodes += sum(outcome.finished for outcome in gathered.outcomes)
    metrics = env_metrics(gathered.outcomes, prefix="env") | played.fill
    metrics |= _times(gathered, played.seconds)
    session.hooks.call(
        "rlcore_after_rollout",
        run=session.run,
        outcomes=gathered.outcomes,
        films=films(gathered, session.assembly.env_specs["train"]),
        metrics=metrics,
    )
    return metrics


def count_update(session: Session, update: int, metrics: dict[str, float]) -> None:
    """Count a finished update and call the hooks for it, which may add metrics."""
    session.update = update + 1
    session.hooks.call("rlcore_after_update", run=session.run, metrics=metrics)


def _times(gathered: Gathered, seconds: float) -> dict[str, float]:
    return {
        "time/rollout": seconds,
        "time/env": gathered.seconds["env"],
        "time/policy": gathered.seconds["policy"],
        "rollout/env_steps_per_second": gathered.env_steps / seconds,
    }
