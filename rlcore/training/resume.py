"""Resume a run: find where it stopped, check that it can continue, and restore the live objects.

A resumed run reads back what earlier attempts finished: its demonstrations, the policy from
supervised training and the evaluation before training. Training then continues from a checkpoint,
by default the latest. As all random numbers are derived from keys, the result is the same as
without the interruption.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from rlcore.checks.demonstrations import check_known_starts
from rlcore.checks.facts import Facts, with_policy
from rlcore.checks.further_sides import FORGETTING, VALIDATION
from rlcore.checks.run import EXPLAINED
from rlcore.config import schema_tree
from rlcore.config.recipes import read_mapping
from rlcore.config.schema import RunConfig
from rlcore.contracts.errors import CheckpointError, ConfigError, MicroBatchError, WorkerError
from rlcore.plugins.registry import load_plugins
from rlcore.runs import history
from rlcore.runs.attempts import archive
from rlcore.runs.checkpoint import Checkpoint, has_checkpoint, load_checkpoint
from rlcore.runs.folder import RunFolder
from rlcore.runs.parquet import read_note
from rlcore.runs.protocol_record import describe_difference
from rlcore.runs.tables import EpisodeResult, read_results
from rlcore.training.assembly import Assembly
from rlcore.training.fixed_keys import check_fixed_keys
from rlcore.training.limits import check_limits
from rlcore.training.session import Session, made_with, protocol
from rlcore.training.session_state import check_state, extents, restore_state
from rlcore.training.supervised_resume import check_start
from rlcore.training.supervised_states import saved_progress
from rlcore.training.trained_on import check_untrained

UPDATE_METRIC = '"train/actor/optimizer_steps"'
"""Metric that each update logs, as it stands in `metrics.jsonl`."""
ENDS = ("after", "best", "control")
"""Labels of the evaluations at the end of a run."""


@dataclass(frozen=True)
class Saved:
    """An interrupted run.

    Attributes:
        folder: the run's folder.
        checkpoint: the checkpoint to resume from; None if the run has none.
        named: whether the user named that checkpoint, rather than the run.
        supervised: whether supervised training is complete, and its saved steps.
        note: a message about the dead process that last held the folder's lock; None if no
            process left a lock behind.
    """

    folder: RunFolder
    checkpoint: Checkpoint | None
    named: bool = False
    note: str | None = None
    supervised: tuple[bool, int] = (False, 0)

    @property
    def step(self) -> int:
        """Number of updates at the checkpoint; 0 without a checkpoint."""
        return 0 if self.checkpoint is None else self.checkpoint.step

    @property
    def progress(self) -> tuple[int, bool, int]:
        """Return what the run has saved so far, to be compared with a later attempt."""
        return self.step, *self.supervised

    @property
    def name(self) -> str | None:
        """Name of the checkpoint; None without a checkpoint."""
        return None if self.checkpoint is None else self.checkpoint.path.name


def find(assembly: Assembly, holds: ExitStack) -> Saved | None:
    """Find and check the run to resume; None for a new run.

    Args:
        assembly: the checked assembly of this attempt.
        holds: receives the lock of the run's folder, so that no other process changes the run
            between this check and the end of the resumed run.

    Raises:
        CheckpointError: there is no run, another process writes to it, or its checkpoint is
            damaged.
        ConfigError: nothing is left to do, a fixed setting has changed, or the run would be
            evaluated on starts that it was trained on.
    """
    config = assembly.config
    folder = _folder_of(config)
    if folder is None:
        return None
    previous = read_mapping(folder.config)
    trained = schema_tree.find(previous, "runner.only_eval") is not True
    if config.runner.resume_dir is None and not trained:
        return None
    note = holds.enter_context(folder.locked(config.runner.logger.require_lock))
    saved = replace(_saved(Path(config.runner.resume_dir or folder.path)), note=note)
    if saved.checkpoint is not None:
        check_state(saved.checkpoint, config.runner.seed)
        check_limits(config, saved.folder, previous, saved.checkpoint, named=saved.named)
        facts = _with_policy(assembly, saved.checkpoint.policy_path)
        check_fixed_keys(config, previous, saved.folder.path, saved.checkpoint, facts)
        # An evaluation that has changed is repeated, so only an unchanged one must be readable.
        if _changed(saved.folder.before, saved.folder, saved.checkpoint) is None:
            _first_evaluation(saved.folder.before)
    learned = saved.folder.sft, saved.folder.sft_rounds, saved.folder.sft_steps
    if saved.checkpoint is not None or any(path.is_dir() for path in learned):
        check_untrained(config, saved.folder)
    if config.sft.enabled:
        check_start(assembly, saved.folder, previous)
    if config.runner.demonstrated_share(saved.step):
        for sentence in check_known_starts(assembly.facts):
            raise ConfigError(sentence, hint=EXPLAINED)
    return saved


def _folder_of(config: RunConfig) -> RunFolder | None:
    """Return the folder of the run to resume; None for a new run.

    It is the run of `runner.resume_dir`. Without that, it is an unfinished run with the configured
    `log_path` and `experiment_name`, unless `runner.only_eval` is set.

    Raises:
        CheckpointError: `runner.resume_dir` is not in a run.
    """
    if config.runner.resume_dir is not None:
        return RunFolder.containing(config.runner.resume_dir)
    if config.runner.only_eval:
        return None
    logger = config.runner.logger
    folder = RunFolder(Path(logger.log_path).expanduser().absolute() / logger.experiment_name)
    if not folder.config.is_file() or folder.summary.is_file():
        return None
    return folder


def after_failure(
    session: Session, error: WorkerError | MicroBatchError, saved: Saved | None
) -> Saved:
    """Return where to resume after a worker failed or ran out of memory.

    Args:
        saved: where the failed attempt itself was resumed from; None if it was a new run.

    Raises:
        WorkerError, MicroBatchError: the given error, if `runner.auto_resume` is off. A worker
            error is also raised if the failed attempt was itself a resume and wrote no newer
            checkpoint, because the next attempt would probably fail in the same way.
    """
    if not session.config.runner.auto_resume:
        raise error
    next_start = _saved(session.folder.path)
    out_of_memory = isinstance(error, MicroBatchError)
    if saved is not None and next_start.progress <= saved.progress and not out_of_memory:
        raise error
    session.progress.line(f"error: {error.message if out_of_memory else error}")
    complete, steps = next_start.supervised
    begun = next_start.checkpoint is not None or complete or not steps
    place = f"update {next_start.step}" if begun else f"supervised step {steps}"
    session.progress.line(f"going on from {place} (runner.auto_resume)")
    return next_start


def rewind_run_folder(session: Session, saved: Saved) -> None:
    """Restore the run's folder to its state at the checkpoint to resume from.

    Newer checkpoints and later results are moved aside and the metrics are truncated, because the
    updates after that checkpoint are repeated.
    """
    at = saved.checkpoint
    if saved.note is not None:
        session.progress.line(f"{session.folder.path} {saved.note}: continuing with it")
    if at is not None:
        session.latest = at.path.name
        superseded = history.supersede_newer(session.folder.checkpoints, at.path.name)
        if superseded:
            session.progress.line(
                f"set aside, as the run goes on from {at.path.name}: {', '.join(superseded)} "
                f"(now in {session.folder.checkpoints / history.SUPERSEDED})"
            )
    archive(session.attempt, _files_after_step(session.folder, saved.step))
    if at is None and _has_updates(session.folder.metrics):
        session.progress.line("the run has no checkpoint: its updates are made again")
    session.trackers.cut(0 if at is None else extents(at)[session.folder.metrics.name].size)


def _has_updates(log: Path) -> bool:
    """Return whether a `metrics.jsonl` has the metrics of an update, not of supervised training
    alone."""
    with log.open(encoding="utf-8", errors="replace") as lines:
        return any(UPDATE_METRIC in line for line in lines)


def _files_after_step(folder: RunFolder, step: int) -> Iterator[Path]:
    """Yield the summary, report and evaluations that belong to later updates than `step`.

    Some of them may not exist. Checkpoints are not included.
    """
    yield from (folder.summary, folder.report)
    sides = (folder.evaluations / side for side in ("", VALIDATION, FORGETTING))
    for path in chain.from_iterable(side.glob("*.parquet") for side in sides):
        prefix, _, number = path.stem.rpartition("_")
        later = prefix == "step" and number.isdecimal() and int(number) > step
        if later or path.stem in ENDS or prefix == "control":
            yield path


def restore(session: Session, saved: Saved | None) -> int:
    """Restore the policy, the learner and the counters from the checkpoint, if there is one.

    A run without an algorithm has no learner, and its policy is that of supervised training.

    Returns:
        The number of updates done; 0 without a checkpoint.

    Raises:
        CheckpointError: the checkpoint has another seed or does not fit this policy.
    """
    if saved is None or saved.checkpoint is None:
        return 0
    at = saved.checkpoint
    if not session.config.supervised_only:
        if not session.config.actor.model.is_lora:  # adapters come with the learner
            session.group.load(at.policy_path)
        session.group.load_learner(at.path)
        session.group.sync()
    restore_state(session, at)
    session.progress.line(f"resumed after update {at.step}")
    _restore_steering(session, saved)
    return at.step


def _restore_steering(session: Session, saved: Saved) -> None:
    """Adapt what plugins had set for training to this session, and report what is dropped.

    A stop request is dropped if the user named this checkpoint. Task weights are dropped if a task
    is no longer trained on.
    """
    steering = session.steering
    tasks = session.run.tasks
    if steering.stopped and saved.named:
        session.progress.line(f"training was stopped here: {steering.stopped}; it goes on as asked")
        steering.stopped = ""
    ahead = session.ahead or {}
    weights = {**steering.task_weights, **ahead.get("task_weights", {})}
    unknown = [task for task in weights if task not in tasks]
    if unknown:
        session.progress.line(
            f"the weights of tasks that a plugin set are dropped: {', '.join(unknown)} is not "
            "trained on any more"
        )
        steering.task_weights = {}
        session.ahead = session.ahead and {"task_weights": {}}


def _first_evaluation(path: Path) -> list[EpisodeResult] | None:
    """Return the rows of an evaluation before training; None if its file does not exist."""
    return read_results(path) if path.exists() else None


def _changed(path: Path, folder: RunFolder, at: Checkpoint) -> str | None:
    """Describe how a file of the run has changed since the checkpoint was written.

    None if it has not changed, or if the checkpoint does not depend on it.
    """
    extent = extents(at).get(path.relative_to(folder.path).as_posix())
    return None if extent is None else extent.fault(path)


def same_evaluation(
    session: Session, saved: Saved | None, path: Path, side: str
) -> list[EpisodeResult] | None:
    """Return the rows of a stored evaluation before training, if this session can reuse it.

    None if the evaluation must be repeated: it is missing, its file has changed since the
    checkpoint, or this session evaluates under other settings, whose success rates could not be
    compared with the stored ones.

    Args:
        path: the evaluation's file.
        side: the side of the run that it evaluates, such as "eval".
    """
    if saved is None or saved.checkpoint is None:
        return None
    fault = _changed(path, saved.folder, saved.checkpoint)
    if fault is not None:  # of another run, or made by a resume that got no further
        session.progress.line(
            "the evaluation before training is not the one that "
            f"{saved.checkpoint.path.name} was written with: {path.name} {fault}; it is made again"
        )
        return None
    results = _first_evaluation(path)
    if results is None:
        return None
    assembly = session.assembly.for_evaluation(side)
    stored = read_note(path)
    current = made_with(assembly)
    if stored == current and {row.protocol for row in results} == {protocol(assembly).digest}:
        return results
    session.progress.line(
        "the evaluation before training was made under other settings "
        f"({describe_difference(stored, current) or 'by another version'}); it is made again"
    )
    return None


def _with_policy(assembly: Assembly, policy: Path) -> Facts:
    """Return the facts of the run when its policy is loaded from a folder."""
    model = assembly.config.actor.model.with_weights_from(policy)
    return with_policy(assembly.facts, model, load_plugins())


def _saved(path: Path) -> Saved:
    """Find the run, and the checkpoint to resume from, by the path of either."""
    path = path.expanduser().absolute()
    folder = RunFolder.containing(path)
    if path == folder.path and not has_checkpoint(folder.checkpoints):
        return Saved(folder, None, supervised=saved_progress(folder))
    checkpoint = load_checkpoint(path)
    if checkpoint.path.resolve().parent != folder.checkpoints.resolve():
        raise CheckpointError(
            f"{checkpoint.path} is not in {folder.checkpoints}: the run can't go on from it",
            hint=f"rlcore resume {folder.path}",
        )
    history.require_in_history(folder.checkpoints, checkpoint.path.name)
    return Saved(folder, checkpoint, named=path != folder.path)
