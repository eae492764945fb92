"""Find where demonstrations began, so that the first updates begin there too.

An env restores a start from (task, trial), so a data set must say them: those that rlcore collected
do (:meth:`rlcore.demonstrations.datasets.Dataset.starts`).
"""

from __future__ import annotations

from pathlib import Path

from rlcore.demonstrations.datasets import open_dataset
from rlcore.rollout.schedule import DemonstratedStarts
from rlcore.training.session import Session


def demonstrated_starts(session: Session, update: int) -> DemonstratedStarts | None:
    """Return the starts of demonstrations for an update; None if no episode begins at one.

    Args:
        update: number of updates done before.
    """
    config = session.config
    share = config.runner.demonstrated_share(update)
    if not share:
        return None
    spec = session.assembly.env_specs["train"]
    if session.demonstrated is None:
        data = Path(config.collect.path or session.folder.demonstrations)
        session.demonstrated = _starts(data)
    trials = spec.trials(config.env.train.split)
    return DemonstratedStarts(
        share,
        [
            [trial for name, trial in session.demonstrated if name == task and trial in trials]
            for task in spec.tasks
        ],
    )


def _starts(folder: Path) -> list[tuple[str, int]]:
    """Return (task, trial) of the successful demonstrations of a data set, sorted."""
    _, data = open_dataset(folder)
    return sorted(data.starts(successful=True))
