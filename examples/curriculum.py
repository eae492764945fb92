"""Tasks that fail are played more often than those that succeed.

The weight of a task moves towards its share of failures; a floor keeps every task in play, so that
what was learned is not forgotten unnoticed. A plugin: a package names this module in its entry
points (docs/plugins.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from rlcore import hookimpl
from rlcore.contracts.episodes import EpisodeOutcome
from rlcore.contracts.run import Run

RLCORE_API = (0, 1)
RATE = 0.3  # how fast a weight follows what was just seen, in (0, 1]
FLOOR = 0.1  # of a weight; one that always fails comes to 1


@hookimpl
def rlcore_after_rollout(
    run: Run, outcomes: Sequence[EpisodeOutcome], metrics: dict[str, float]
) -> None:
    """Weigh the tasks of the next rollout; those that were not played keep their weight."""
    weights = dict(run.task_weights)
    for number, task in enumerate(run.tasks):
        played = [one.success for one in outcomes if one.finished and one.episode.task == number]
        if played:
            weight = (1 - RATE) * weights[task] + RATE * (1 - fmean(played))
            weights[task] = max(weight, FLOOR)
            metrics[f"curriculum/{task}"] = weights[task]
    run.set_task_weights(weights)
