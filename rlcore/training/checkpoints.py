"""Write the checkpoints of a run, and choose the best one."""

from __future__ import annotations

from pathlib import Path

from rlcore.runs.ahead import AHEAD
from rlcore.runs.checkpoint import save_checkpoint
from rlcore.runs.history import checkpoint_name, judge_newest, require_latest
from rlcore.runs.replay_files import files_in, link_segments
from rlcore.training import session_state
from rlcore.training.limits import goes_on
from rlcore.training.session import Session


def write_checkpoint(session: Session, update: int) -> None:
    """Write policy, learner state and counters to `checkpoints/step_NNNNNN`, the new latest one.

    Nothing is written if there was no update since the latest checkpoint. A run without an
    algorithm has no learner, so its checkpoint has no learner state.

    Raises:
        CheckpointError: the checkpoint can't be written, or the latest checkpoint on the disk is
            not the one that this run wrote or resumed from.
    """
    session.folder.require_lock()
    folder = session.folder.checkpoints
    require_latest(folder, session.latest)
    if session.latest == checkpoint_name(update):
        return
    # A checkpoint written only because the run was interrupted must not change which one is the
    # best, or a resumed run would differ from an uninterrupted one. The next regular checkpoint is
    # judged by all updates since the previous regular one.
    regular = session.due or not trains_on(session, update)
    best = regular and _is_best(session)
    with session.clock.measure("checkpoint"):
        earlier = None if session.latest is None else folder / session.latest

        def save_learner(path: Path) -> None:
            session.group.save_learner(path, known=files_in(earlier))
            if session.ahead is not None:
                session.group.save_previous_weights(path / AHEAD)
            link_segments(path, earlier)

        path = save_checkpoint(
            folder,
            update,
            save_policy=session.group.save,
            save_learner=None if session.config.supervised_only else save_learner,
            state=session_state.state(session),
            best=best,
            keep=session.config.runner.checkpoints_kept,
        )
    session.latest = path.name


def judge_latest(session: Session) -> None:
    """Decide whether the latest checkpoint is the best, after its validation starts were played.

    The run was interrupted between the update and this evaluation, so the checkpoint was written
    without it. The state of the run in the checkpoint is replaced.
    """
    assert session.latest is not None  # the session was restored from it
    best = _is_best(session)
    state = session_state.state(session)
    judge_newest(session.folder.checkpoints, session.latest, state, best=best)


def trains_on(session: Session, update: int) -> bool:
    """Return whether another update follows: no limit is reached, no plugin stopped training."""
    limited = goes_on(session.config.runner, update, session.totals.env_steps)
    return limited and not session.steering.stopped


def _is_best(session: Session) -> bool:
    """Return whether the checkpoint that is due becomes `checkpoints/best` (`runner.keep_best`).

    If the run has validation starts, it is chosen by its success there: the rule of
    :mod:`rlcore.runs.kept`, on the evaluation after its update. Otherwise the mean success of the
    training episodes since the previous regular checkpoint must exceed the best mean so far. The
    held-out starts of the final evaluation are not used, because they must not choose the
    checkpoint whose success they then measure. Clears what it judged by.
    """
    successes = session.successes
    validated = session.validated
    session.successes = []
    session.validated = None
    if validated is not None:
        return session.choice.keeps(validated)
    if not (session.config.runner.keep_best and successes):
        return False
    success = sum(successes) / len(successes)
    if session.best is not None and success <= session.best:
        return False
    session.best = success
    return True
