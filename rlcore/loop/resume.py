"""Going on with a run: where it stood, and how the live objects get there.

A run's stages are taken up where they were left: demonstrations are counted, the supervised start
is loaded, an evaluation is read back, and training goes on from the last checkpoint. As all
randomness is keyed, what follows is what would have followed without the interruption.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlcore.config.schema import RunConfig
from rlcore.errors import CheckpointError, ConfigError, WorkerError
from rlcore.loop.session import Session, Totals
from rlcore.loop.tables import EpisodeResult, read_results
from rlcore.track.checkpoint import LATEST, Checkpoint, load_checkpoint
from rlcore.track.folder import RunFolder
from rlcore.track.trackers import cut_metrics


@dataclass(frozen=True)
class Saved:
    """An interrupted run.

    Attributes:
        folder: where it is.
        checkpoint: where it stood; None if it was interrupted before the first.
    """

    folder: RunFolder
    checkpoint: Checkpoint | None

    @property
    def step(self) -> int:
        return 0 if self.checkpoint is None else self.checkpoint.step


def find(config: RunConfig) -> Saved | None:
    """The run to go on with: `runner.resume_dir`, or with `runner.auto_resume` the unfinished one
    in this run's folder; None for a new run.

    Raises:
        CheckpointError: no run there, or a damaged checkpoint.
        ConfigError: nothing is left to do.
    """
    if config.runner.resume_dir is not None:
        saved = _saved(Path(config.runner.resume_dir))
        if saved.folder.summary.is_file() and saved.step >= config.runner.max_epochs >= 0:
            raise ConfigError(
                f"{saved.folder.path} is finished: {saved.step} of {config.runner.max_epochs} "
                "updates are done",
                hint=f"rlcore resume {saved.folder.path} runner.max_epochs={saved.step * 2}",
            )
    elif config.runner.auto_resume:
        logger = config.runner.logger
        folder = RunFolder(Path(logger.log_path).expanduser().absolute() / logger.experiment_name)
        if not folder.config.is_file() or folder.summary.is_file():
            return None
        saved = _saved(folder.path)
    else:
        return None
    return saved


def after_failure(session: Session, error: WorkerError, saved: Saved | None) -> Saved:
    """Where to go on after a worker failed; raises the error where that is not wanted, or when
    nothing was gained since the last time."""
    if not session.config.runner.auto_resume:
        raise error
    again = _saved(session.folder.path)
    if saved is not None and again.step <= saved.step:
        raise error
    session.progress.line(f"error: {error}")
    session.progress.line(f"going on from update {again.step} (runner.auto_resume)")
    return again


def forget_later_metrics(session: Session, saved: Saved | None) -> None:
    """Take back what was logged after the checkpoint: it is going to happen again."""
    if saved is not None:
        at = saved.checkpoint
        cut_metrics(session.folder.metrics, 0 if at is None else at.state["metrics_size"])


def state(session: Session) -> dict[str, Any]:
    """What a checkpoint keeps of the session; :func:`restore` takes it up."""
    return {
        "seed": session.config.runner.seed,
        "totals": vars(session.totals),
        "seconds": session.clock.seconds,
        "best": session.best,
        "metrics_size": session.folder.metrics.stat().st_size,
    }


def restore(session: Session, saved: Saved | None) -> int:
    """Policy, learner and counters as they were; returns the updates done.

    Raises:
        CheckpointError: of another seed, or it does not fit this policy.
    """
    if saved is None or saved.checkpoint is None:
        return 0
    at, kept = saved.checkpoint, saved.checkpoint.state
    if kept["seed"] != session.config.runner.seed:
        raise CheckpointError(
            f"{at.path} is of a run with seed {kept['seed']}, "
            f"runner.seed is {session.config.runner.seed}"
        )
    if not session.config.actor.model.is_lora:  # adapters come with the learner
        session.group.policy("load", path=str(at.policy_path))
    session.group.actor("load_learner", path=str(at.path))
    session.group.sync()
    session.totals = Totals(**kept["totals"])
    for phase, seconds in kept["seconds"].items():
        session.clock.add(phase, seconds)
    session.best = kept["best"]
    session.progress.line(f"resumed after update {at.step}")
    return at.step


def earlier_evaluation(
    session: Session, saved: Saved | None, label: str
) -> list[EpisodeResult] | None:
    """The rows of an evaluation that was made before the checkpoint; None if there are none."""
    path = session.folder.evaluations / f"{label}.parquet"
    if saved is None or saved.checkpoint is None or not path.is_file():
        return None
    return read_results(path)


def _saved(path: Path) -> Saved:
    folder = RunFolder.containing(path)
    if path == folder.path and not (folder.checkpoints / LATEST).is_file():
        return Saved(folder, None)
    return Saved(folder, load_checkpoint(path))
