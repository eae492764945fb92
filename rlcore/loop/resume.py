"""Going on with a run: where it stood, and how the live objects get there.

A run's stages are taken up where they were left: demonstrations are counted, the supervised start
is loaded, an evaluation is read back, and training goes on from the last checkpoint. As all
randomness is keyed, what follows is what would have followed without the interruption.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from rlcore.checks.facts import Facts, gather_facts
from rlcore.config.schema import RunConfig
from rlcore.data.demonstrations import check_folder
from rlcore.errors import CheckpointError, MicroBatchError, WorkerError
from rlcore.loop.kept import BEFORE, check_kept, extents, put_back, stand_on
from rlcore.loop.left import Done, check_left, is_evaluation
from rlcore.loop.session import Session, made_with, protocol
from rlcore.loop.settled import check_settled
from rlcore.loop.trained import check_untrained
from rlcore.plugins import load_plugins
from rlcore.results.parquet import read_note
from rlcore.results.tables import EpisodeResult, read_results
from rlcore.track import course
from rlcore.track.attempts import set_aside
from rlcore.track.checkpoint import Checkpoint, has_checkpoint, load_checkpoint
from rlcore.track.contents import check_seal
from rlcore.track.folder import RunFolder
from rlcore.track.imitation import check_history
from rlcore.track.protocol import told_apart

ENDS = ("after", "control")
"""Labels of the evaluations that a run ends with."""


@dataclass(frozen=True)
class Saved:
    """An interrupted run.

    Attributes:
        folder: where it is.
        checkpoint: where it stood; None if it was interrupted before the first.
        named: whether that checkpoint was asked for, and not just the run.
    """

    folder: RunFolder
    checkpoint: Checkpoint | None
    named: bool = False

    @property
    def step(self) -> int:
        return 0 if self.checkpoint is None else self.checkpoint.step


def folder_of(config: RunConfig) -> RunFolder | None:
    """That of the run to go on with: `runner.resume_dir`, or with `runner.auto_resume` the
    unfinished one in this run's folder; None for a new run.

    Raises:
        CheckpointError: no run there.
    """
    if config.runner.resume_dir is not None:
        return RunFolder.containing(config.runner.resume_dir)
    if not config.runner.auto_resume or config.runner.only_eval:
        return None
    logger = config.runner.logger
    folder = RunFolder(Path(logger.log_path).expanduser().absolute() / logger.experiment_name)
    if not folder.config.is_file() or folder.summary.is_file() or is_evaluation(folder):
        return None
    return folder


def find(config: RunConfig) -> Saved | None:
    """Where the run to go on with stands; None for a new run. Its folder should be held, so that
    it still stands there when it is gone on with.

    Raises:
        CheckpointError: no run there, or a damaged checkpoint.
        ConfigError: nothing is left to do, or it would be measured where it was trained before.
    """
    folder = folder_of(config)
    if folder is None:
        return None
    saved = _saved(Path(config.runner.resume_dir or folder.path))
    if saved.checkpoint is not None:
        check_kept(saved.checkpoint, config.runner.seed)
        facts = _facts_with(config, saved.checkpoint.policy_path)
        check_left(config, saved.folder, _done(saved))
        check_settled(config, saved.folder, saved.checkpoint, facts)
        if _unlike(saved, BEFORE) is None:  # else it is made again
            earlier_evaluation(saved, BEFORE)
    if saved.checkpoint is not None or saved.folder.sft.is_dir():  # something was learned
        check_untrained(config, saved.folder)
    if config.sft.enabled:
        _check_start(saved.folder, config)
    return saved


def after_failure(
    session: Session, error: WorkerError | MicroBatchError, saved: Saved | None
) -> Saved:
    """Where to go on after a worker failed; raises the error where that is not wanted, or when
    nothing was gained since the last time. Smaller micro-batches are something."""
    if not session.config.runner.auto_resume:
        raise error
    again = _saved(session.folder.path)
    smaller = isinstance(error, MicroBatchError)
    if saved is not None and again.step <= saved.step and not smaller:
        raise error
    session.progress.line(f"error: {error.message if smaller else error}")
    session.progress.line(f"going on from update {again.step} (runner.auto_resume)")
    return again


def take_up(session: Session, saved: Saved | None) -> None:
    """Let the folder of the run end where it is gone on from. Checkpoints behind that are set
    aside, and so is what an earlier attempt came to; what was logged behind it is taken back, as it
    is going to happen again."""
    if saved is None:
        return
    at = saved.checkpoint
    if at is not None:
        session.latest = at.path.name
        given_up = course.take_up(session.folder.checkpoints, at.path.name)
        if given_up:
            session.progress.line(
                f"set aside, as the run goes on from {at.path.name}: {', '.join(given_up)} (now in "
                f"{session.folder.checkpoints / course.SUPERSEDED})"
            )
    set_aside(session.attempt, _behind(session.folder, saved.step))
    if at is None and session.folder.metrics.stat().st_size:
        session.progress.line("the run has no checkpoint: its updates are made again")
    session.trackers.cut(0 if at is None else extents(at)[session.folder.metrics.name].size)


def _behind(folder: RunFolder, step: int) -> Iterator[Path]:
    """What a run wrote after that many updates, besides checkpoints: its end, and evaluations."""
    yield from (folder.summary, folder.report)
    for path in folder.evaluations.glob("*.parquet"):
        prefix, _, number = path.stem.rpartition("_")
        later = prefix == "step" and number.isdecimal() and int(number) > step
        if later or path.stem in ENDS:
            yield path


def restore(session: Session, saved: Saved | None) -> int:
    """Policy, learner and counters as they were; returns the updates done.

    Raises:
        CheckpointError: of another seed, or it does not fit this policy.
    """
    if saved is None or saved.checkpoint is None:
        return 0
    at = saved.checkpoint
    if not session.config.actor.model.is_lora:  # adapters come with the learner
        session.group.policy("load", path=str(at.policy_path))
    session.group.actor("load_learner", path=str(at.path))
    session.group.sync()
    put_back(session, at)
    session.progress.line(f"resumed after update {at.step}")
    _steer_on(session, saved)
    return at.step


def _steer_on(session: Session, saved: Saved) -> None:
    """Take up what plugins had set, and say where that is more than going on as before."""
    steering, tasks = session.steering, session.run.tasks
    if steering.stopped and saved.named:
        session.progress.line(f"training was stopped here: {steering.stopped}; it goes on as asked")
        steering.stopped = ""
    unknown = [task for task in steering.task_weights if task not in tasks]
    if unknown:
        session.progress.line(
            f"the weights of tasks that a plugin set are dropped: {', '.join(unknown)} is not "
            "trained on any more"
        )
        steering.task_weights = {}


def earlier_evaluation(saved: Saved | None, label: str) -> list[EpisodeResult] | None:
    """The rows of an evaluation that was made before the checkpoint; None if there are none."""
    if saved is None or saved.checkpoint is None:
        return None
    path = saved.folder.evaluations / f"{label}.parquet"
    return read_results(path) if path.exists() else None


def _unlike(saved: Saved, label: str) -> str | None:
    """What is wrong with an evaluation that the checkpoint was written with, in a few words."""
    assert saved.checkpoint is not None
    path = saved.folder.evaluations / f"{label}.parquet"
    then = extents(saved.checkpoint).get(path.relative_to(saved.folder.path).as_posix())
    return None if then is None else then.fault(path)


def same_evaluation(
    session: Session, saved: Saved | None, label: str
) -> list[EpisodeResult] | None:
    """As :func:`earlier_evaluation`, if it was made as this session would make it. Rates under two
    protocols make no difference: the start's weights are still at hand here, and play again."""
    if saved is None or saved.checkpoint is None:
        return None
    fault = _unlike(saved, label)
    if fault is not None:  # of another run, or made by a resume that got no further
        session.progress.line(
            f"the evaluation {label} training is not the one that {saved.checkpoint.path.name} "
            f"was written with: {label}.parquet {fault}; it is made again"
        )
        return None
    found = earlier_evaluation(saved, label)
    if found is None:
        return None
    then = read_note(saved.folder.evaluations / f"{label}.parquet")
    now = made_with(session.assembly)
    if then == now and {row.protocol for row in found} == {protocol(session.assembly).digest}:
        return found
    session.progress.line(
        f"the evaluation {label} training was made under other settings "
        f"({told_apart(then, now) or 'by another version'}); it is made again"
    )
    return None


def made_again(session: Session, saved: Saved | None, label: str) -> None:
    """Let the checkpoint that the run goes on from stand on the evaluation that was just made: no
    other may come."""
    if saved is not None and saved.checkpoint is not None:
        path = session.folder.evaluations / f"{label}.parquet"
        stand_on(session.folder, saved.checkpoint, path)


def _done(saved: Saved) -> Done:
    assert saved.checkpoint is not None
    steps = saved.checkpoint.state["totals"]["env_steps"]
    stopped = "" if saved.named else saved.checkpoint.state["steering"]["stopped"]
    finished = saved.folder.summary.is_file()
    return Done(saved.step, steps, finished, stopped, saved.checkpoint.path)


def _check_start(folder: RunFolder, config: RunConfig) -> None:
    """Refuse demonstrations or a supervised start of the run that can't be taken up.

    Raises:
        UserError: damaged, or of another env or policy.
    """
    started = folder.sft.is_dir()
    facts = _facts_with(config, folder.sft if started else None)
    if started:
        check_seal(folder.sft, config.runner.seed)
        check_history(folder.path / "sft.json", folder.metrics)
    if not started or config.sft.control:
        path = Path(config.collect.path) if config.collect.path else folder.demonstrations
        check_folder(path, facts.envs["train"], config.collect, seed=config.runner.seed)


def _facts_with(config: RunConfig, policy: Path | None) -> Facts:
    """What is known of the run with the policy in a folder, which is judged by its files."""
    if policy is not None:
        model = config.actor.model.beginning_with(policy)
        config = replace(config, actor=replace(config.actor, model=model))
    return gather_facts(config, load_plugins())


def _saved(path: Path) -> Saved:
    path = path.expanduser().absolute()
    folder = RunFolder.containing(path)
    if path == folder.path and not has_checkpoint(folder.checkpoints):
        return Saved(folder, None)
    checkpoint = load_checkpoint(path)
    if checkpoint.path.resolve().parent != folder.checkpoints.resolve():
        raise CheckpointError(
            f"{checkpoint.path} is not in {folder.checkpoints}: the run can't go on from it",
            hint=f"rlcore resume {folder.path}",
        )
    course.require_on_course(folder.checkpoints, checkpoint.path.name)
    return Saved(folder, checkpoint, named=path != folder.path)
