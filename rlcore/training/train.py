"""Run `rlcore train`: starting policy, evaluation, reinforcement learning, evaluation, summary.

demonstrations -> supervised --> [ rollout -> update ]* --> checkpoint, summary
                        |                           |
                     evaluate (before)           evaluate (after)
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Mapping
from operator import attrgetter
from pathlib import Path
from statistics import fmean

from rlcore.checks.further_sides import FORGETTING, PLATEAU
from rlcore.config.schema import RunnerConfig
from rlcore.config.schema.supervised import DEMONSTRATIONS
from rlcore.contracts.errors import MicroBatchError, WorkerError
from rlcore.runs.checkpoint import POLICY
from rlcore.runs.history import read_history
from rlcore.runs.summary import Summary
from rlcore.runs.tables import EpisodeResult, success_by_start
from rlcore.training import checkpoint_trial, resume, session_state
from rlcore.training.after_node_loss import (
    on_remaining_nodes,
    with_smaller_micro_batches,
)
from rlcore.training.assembly import SAMPLING, Assembly
from rlcore.training.async_loop import AsyncLoop
from rlcore.training.callbacks import HookError
from rlcore.training.checkpoints import judge_latest, trains_on, write_checkpoint
from rlcore.training.evaluate import conclude, evaluate, evaluate_to_choose, sampling_warning
from rlcore.training.evaluation_record import keep
from rlcore.training.limits import checkpoint_is_due
from rlcore.training.session import Session, open_session
from rlcore.training.sft import finish, starting_policy, train_control
from rlcore.training.supervised_phase import load_policy
from rlcore.training.sync_loop import SyncLoop
from rlcore.utils.stopping import StopSignals


def run(assembly: Assembly) -> Summary:
    """Run `rlcore train` and return the contents of `summary.json`.

    With `runner.auto_resume`, the run resumes from its latest checkpoint after a worker failed or
    ran out of memory.

    Args:
        assembly: the checked configuration, from :func:`rlcore.training.assembly.assemble`.

    Raises:
        UserError: see :func:`rlcore.training.session.open_session`; or a worker failed.
        KeyboardInterrupt: the run was asked to stop. If updates were being made, a checkpoint was
            written first.
    """
    runner = assembly.config.runner
    requested = assembly
    with contextlib.ExitStack() as holds:
        saved = None
        if runner.resume_dir is not None or runner.auto_resume:
            saved = resume.find(assembly, holds)
        while True:
            folder, at = (None, None) if saved is None else (saved.folder, saved.name)
            started = False
            try:
                with open_session(assembly, folder=folder, at=at, holds=holds) as session:
                    started = True
                    return _run_stages(session, saved)
            except (WorkerError, MicroBatchError) as error:  # the session has recorded it
                if not started:
                    raise
                saved = resume.after_failure(session, error, saved)
                out_of_memory = isinstance(error, MicroBatchError)
            if out_of_memory:
                requested = with_smaller_micro_batches(
                    requested, assembly.placement.world_size("actor")
                )
            assembly = on_remaining_nodes(requested)


def _run_stages(session: Session, saved: resume.Saved | None) -> Summary:
    config = session.config
    if saved is not None:
        resume.rewind_run_folder(session, saved)
    if config.runner.only_eval:
        return conclude(session, {"after": evaluate(session, "eval")})
    if saved is None or saved.checkpoint is None:
        checkpoint_trial.try_policy(session)
    initial = None
    if config.sft.enabled:
        initial = starting_policy(session)
        if config.supervised_only:
            resume.restore(session, saved)
            return finish(session, initial)
    evaluations: dict[str, list[EpisodeResult]] = {}
    measures_forgetting = FORGETTING in session.assembly.further_configs
    if config.runner.val_before_train:
        evaluations["before"] = _evaluate_before(session, saved, session.folder.before, "eval")
        if config.runner.val_sampling and config.rollout.eval_deterministic:
            sampled = _evaluate_before(session, saved, session.folder.sampling, SAMPLING)
            evaluations[SAMPLING] = sampled
            key = session.assembly.policy_spec.exploration_key
            value = attrgetter(key)(config.actor.model) if key else None
            for line in sampling_warning(evaluations["before"], sampled, key, value):
                session.progress.line(line)
        if measures_forgetting:
            path = session.folder.forgetting
            evaluations["forgetting/before"] = _evaluate_before(session, saved, path, FORGETTING)
            session.group.release(FORGETTING)
    updates = reinforce(session, resume.restore(session, saved))
    stopped = session.steering.stopped  # a plugin's stop request after this point has no effect
    best = read_history(session.folder.checkpoints).best if config.runner.keep_best else None
    evaluated = session.latest
    if config.selects_on_validation and best is not None:
        evaluated = best
        _load_checkpoint(session, best)
        session.progress.line(f"kept: {best}, the latest that is not below the best on validation")
    evaluations["after"] = evaluate(session, "after", update=updates)
    keep(session, session.folder.checkpoints / str(evaluated), evaluations["after"])
    if measures_forgetting:
        evaluations["forgetting/after"] = evaluate(session, "forgetting/after", updates, FORGETTING)
    if best is not None and best != evaluated:
        _load_checkpoint(session, best)
        evaluations["best"] = evaluate(session, "best", update=updates, policy="best")
    elif best is not None:
        evaluations["best"] = evaluations["after"]
    control = None
    if initial is not None and config.sft.control:
        evaluations["control"], control = train_control(session, initial, update=updates)
    summary = conclude(session, evaluations, stopped=stopped, best=best, control=control)
    if initial is not None and control is None:
        session.progress.line(
            "what as much more imitation reaches: "
            f"rlcore resume {session.folder.path} sft.control={DEMONSTRATIONS}"
        )
    return summary


def _load_checkpoint(session: Session, name: str) -> None:
    """Load the policy of a checkpoint by its name, unless it is the latest, which is loaded."""
    if name != session.latest:
        load_policy(session, session.folder.checkpoints / name / POLICY)


def _evaluate_before(
    session: Session, saved: resume.Saved | None, path: Path, side: str
) -> list[EpisodeResult]:
    """Return an evaluation before training: the stored one if it can be reused, else a new one."""
    results = resume.same_evaluation(session, saved, path, side)
    if results is None:
        label = path.relative_to(session.folder.evaluations).with_suffix("").as_posix()
        results = evaluate(session, label, side=side)
        if saved is not None and saved.checkpoint is not None:
            session_state.add_dependencies(session.folder, saved.checkpoint, path)
    return results


def reinforce(session: Session, done: int = 0) -> int:
    """Alternate rollouts and updates until a limit is reached or a plugin stops training.

    A checkpoint is written at the end.

    Args:
        done: number of updates that the resumed run has already made; 0 for a new run.

    Returns:
        The number of updates done, including `done`.

    Raises:
        KeyboardInterrupt: a signal asked the run to stop; the checkpoint was written.
        HookError: a hook of a plugin failed; the checkpoint was written.
    """
    if session.assembly.needs.demonstrations:
        data = session.config.collect.path or session.folder.demonstrations
        held_back = session.config.sft.val_fraction if session.config.sft.enabled else 0.0
        session.group.load_demonstrations(
            str(data), held_back, session.config.env.train.reward_coef
        )
    if not done:
        checkpoint_trial.try_learner(session)
    resume = f"rlcore resume {session.folder.path} goes on from the last checkpoint"
    with StopSignals(session.progress.line, resume) as stop:
        update = _updates(session, done, stop)
        write_checkpoint(session, update)
    session.hooks.check()
    if stop.requested:
        session.progress.line(
            f"stopped after update {update}; to continue: rlcore resume {session.folder.path}"
        )
        raise stop.interruption
    if session.steering.stopped:
        session.progress.line(f"training stopped after update {update}: {session.steering.stopped}")
        final = session.assembly.needs.final_policy_steps
        if final and update < session.config.runner.max_epochs:
            session.progress.line(
                f"warning: the {final} steps of the policy that the algorithm makes after the last "
                f"update, {session.config.runner.max_epochs}, were not made"
            )
    return update


def _updates(session: Session, update: int, stop: StopSignals) -> int:
    """Make updates, starting with number `update` (from 0); return the number done at the end."""
    runner = session.config.runner

    def ending() -> bool:
        return stop.requested or session.hooks.failed

    if session.unjudged and session.config.selects_on_validation:
        with contextlib.suppress(HookError):  # reinforce raises it
            _validate(session, update)
            judge_latest(session)
        if ending():
            return update
    loop_class: type[AsyncLoop | SyncLoop] = AsyncLoop if runner.overlaps else SyncLoop
    loop = loop_class(session, ending)
    while trains_on(session, update):
        before = copy.deepcopy((session.totals, session.steering))
        metrics = loop.rollout(update)
        if ending():  # discard the rollout: the checkpoint must match the last finished update
            session.totals, session.steering = before
            return update
        metrics |= loop.update(update)
        update += 1
        session.validated = None  # it judges the weights that it was played with, no later ones
        session.due = checkpoint_is_due(
            runner, update, session.totals.env_steps, before[0].env_steps
        )
        session.trackers.log(metrics, step=update)
        session.collect_trace()
        if not session.config.selects_on_validation:
            session.successes.append(metrics["env/success_once"])
        evaluation_seconds = remaining_evaluation_seconds(runner, session.clock.seconds, update)
        session.progress.update_line(update, runner.max_epochs, metrics, evaluation_seconds)
        for warning in sorted({*session.group.warnings()} - session.warned):
            session.warned.add(warning)
            session.progress.line(f"warning: {warning}")
        is_last = not trains_on(session, update)
        due = runner.val_check_interval > 0 and update % runner.val_check_interval == 0
        selects = session.config.selects_on_validation
        # only regular checkpoints are judged, and each has its own evaluation
        session.unjudged = due and selects and (session.due or is_last)
        if ending():
            return update
        if due and (selects or not is_last):
            with contextlib.suppress(HookError):  # reinforce raises it after the checkpoint
                _validate(session, update)
        if session.due and not is_last:
            write_checkpoint(session, update)
        if ending():
            return update
    return update


def _validate(session: Session, update: int) -> None:
    """Evaluate the weights of an update during training, and keep what judges its checkpoint."""
    results = evaluate_to_choose(session, f"step_{update:06d}", update)
    if session.config.selects_on_validation:
        session.validated = success_by_start(results)
        session.unjudged = False


def remaining_evaluation_seconds(
    runner: RunnerConfig, seconds: Mapping[str, float], update: int
) -> float:
    """Estimate the seconds that the evaluations after an update will take until the end of the run.

    The estimate is their number times the mean duration of such evaluations so far; 0 without any.
    Those on other starts or tasks, of which none follow, do not count.

    Args:
        runner: settings with the number of updates and of those between evaluations.
        seconds: wall seconds so far by phase, `eval_LABEL` of an evaluation.
        update: number of updates done.
    """
    others = tuple(f"eval_{side}/" for side in (PLATEAU, FORGETTING, SAMPLING))
    durations = [
        duration
        for phase, duration in seconds.items()
        if phase.startswith("eval_") and not phase.startswith(others)
    ]
    last = runner.max_epochs - 1
    interval = runner.val_check_interval
    between = last // interval - (update - 1) // interval if interval > 0 else 0
    return (max(between, 0) + 1) * fmean(durations) if durations else 0.0
