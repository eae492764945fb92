"""Train supervised: `rlcore sft`, the start of reinforcement learning, and its control."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, cast

from rlcore.checks.limits import judged_checkpoints
from rlcore.config.schema import OWN_SUCCESSES, SFTConfig
from rlcore.files.atomic import remove_folder, sync, write_text
from rlcore.files.damaged_files import read_json
from rlcore.runs.kept import Choice
from rlcore.runs.summary import Control, Summary
from rlcore.runs.tables import EpisodeResult, success_by_start
from rlcore.runs.trackers import read_metrics
from rlcore.training.assembly import Assembly
from rlcore.training.checkpoint_trial import try_policy
from rlcore.training.checkpoints import write_checkpoint
from rlcore.training.collect import provide_demonstrations
from rlcore.training.control_work import ControlWork
from rlcore.training.evaluate import conclude, evaluate, evaluate_to_choose
from rlcore.training.evaluation_record import keep
from rlcore.training.plateau import train_to_plateau
from rlcore.training.session import Session, open_session
from rlcore.training.supervised_phase import (
    SupervisedTraining,
    load_policy,
    log_losses,
    save_policy,
    steps_before,
    train_supervised,
)
from rlcore.training.supervised_steps import steps_of, write_steps


def run(assembly: Assembly) -> Path:
    """Run `rlcore sft`: collect or read demonstrations, train, evaluate; return the checkpoint."""
    with open_session(assembly) as session:
        try_policy(session)
        path = starting_policy(session)
        finish(session, path)
    return path


def finish(session: Session, path: Path) -> Summary:
    """End a run after its supervised training, and return the contents of `summary.json`.

    A checkpoint of update 0 is written, so that the run can be served, replayed and resumed like
    any other. An env of which no episode can be played is not evaluated in.

    Args:
        path: the checkpoint of supervised training, whose policy is loaded.
    """
    write_checkpoint(session, 0)
    evaluations: dict[str, list[EpisodeResult]] = {}
    if not session.assembly.env_specs["eval"].unplayable:
        evaluations["after"] = evaluate(session, "sft")
        keep(session, session.folder.checkpoint(0), evaluations["after"])
    summary = conclude(session, evaluations)
    session.progress.line(f"checkpoint: {path}  (use it as actor.model.model_path)")
    return summary


def starting_policy(session: Session) -> Path:
    """Train supervised on demonstrations, from the current weights; return the checkpoint's folder.

    The checkpoint is loaded on every rank and sent to the rollout workers. A resumed run reuses the
    checkpoint, or the steps that it has saved and the demonstrations that it has collected.
    """
    path = session.folder.sft
    sft = session.config.sft
    if path.is_dir():  # the folder is renamed into place, so it is complete
        if not session.folder.metrics.stat().st_size:  # a resume without checkpoint emptied the log
            history = read_json(session.folder.path / "sft.json")
            log_losses(session, "sft", history)
            _record(session, history, "sft")
    else:
        data = provide_demonstrations(session)
        before = steps_before(session)
        if session.config.trains_to_plateau:
            history, policy = train_to_plateau(session, data)
            _record(session, history, "sft")
            # of all rounds: the control gets further batches than any round had, kept or not
            write_steps(policy, before + history["steps"])
            policy.rename(path)
            sync(path.parent)
        else:
            history = train_supervised(session, data, sft)
            _record(session, history, "sft")
            save_policy(session, path, before + sft.max_steps)
    load_policy(session, path)
    remove_folder(session.folder.sft_rounds)
    remove_folder(session.folder.sft_steps)
    return path


def train_control(
    session: Session, start: Path, *, update: int
) -> tuple[list[EpisodeResult], Control]:
    """Train and evaluate the control: supervised training from the same start as reinforcement
    learning, of as much work (:mod:`rlcore.training.control_work`).

    If a checkpoint of reinforcement learning is chosen on validation starts, the control's weights
    are chosen by the same rule, from as many candidates. Otherwise, a control that an interrupted
    run completed is not trained again.

    Args:
        session: the run's session.
        start: the checkpoint from which reinforcement learning started.
        update: number of updates of reinforcement learning.

    Returns:
        The evaluation of the control, and the record of its work.
    """
    config = session.config
    session.trackers.sync()
    work = ControlWork.of_run(
        read_metrics(session.folder.metrics),
        env_steps=session.totals.env_steps,
        episodes=session.totals.episodes,
        num_action_chunks=config.actor.model.num_action_chunks,
    )
    # a run of before this number was kept has at most `sft.max_steps`
    sft = replace(config.sft, max_steps=steps_of(start) or config.sft.max_steps)
    path = session.folder.path / "control"
    # parts of a control that are judged on validation starts are logged, so all are trained again
    history = None if config.selects_on_validation else _complete_control(path, work, sft)
    if history is None:
        fitted = _fit_control(session, start, path, work, sft, update)
        history = {**fitted, "work": work.record(fitted), "settings": asdict(sft)}
    else:
        session.progress.line(f"the control is complete: {path}")
        log_losses(session, "control", history)
    _record(session, history, "control")
    load_policy(session, path)
    results = evaluate(session, "control", update=update, policy="control")
    return results, cast(Control, history["work"])


def _complete_control(path: Path, work: ControlWork, sft: SFTConfig) -> dict[str, Any] | None:
    """Return the training history of the control if an interrupted run completed it with equal work
    and settings, else None."""
    record = path.with_suffix(".json")
    if not (path.is_dir() and record.exists()):
        return None
    history: dict[str, Any] = read_json(record)
    same = history.get("settings") == asdict(sft) and history["work"] == work.record(history)
    return history if same else None


def _fit_control(
    session: Session, start: Path, path: Path, work: ControlWork, sft: SFTConfig, update: int
) -> dict[str, Any]:
    """Train the control from `start`, save it at `path`, and return its training history."""
    config = session.config
    own_successes = sft.control == OWN_SUCCESSES
    parts = 1
    if config.selects_on_validation:
        parts = max(1, judged_checkpoints(config.runner, update))
    path.with_suffix(".json").unlink(missing_ok=True)  # it describes an earlier control
    session.group.load(start)
    if own_successes:
        session.group.load_replay(session.folder.checkpoint(update))
    options = {"control_samples": work.samples, "own_successes": own_successes}
    data = config.collect.path or session.folder.demonstrations
    training = SupervisedTraining(session, "control", "control: more SFT", data, sft, options)
    choice = Choice()
    for part in range(1, parts + 1):
        training.train(None if part == parts else round(training.planned_steps * part / parts))
        is_kept = True
        if config.selects_on_validation:
            session.group.sync()
            results = evaluate_to_choose(session, f"control_{part}", update, policy="control")
            is_kept = choice.keeps(success_by_start(results))
        if is_kept:
            # of an earlier part, or left by an attempt that was interrupted
            shutil.rmtree(path, ignore_errors=True)
            save_policy(session, path)
    training.end()
    return training.history


def _record(session: Session, history: dict[str, Any], name: str) -> None:
    """Write the history to `NAME.json`, log success after its rounds, and print a summary."""
    write_text(session.folder.path / f"{name}.json", json.dumps(history, indent=1) + "\n")
    for played in history.get("rounds", ()):  # of sft.until=plateau
        session.trackers.log(played["metrics"], step=played["steps"])
    progress = session.progress
    progress.line(f"{name}: stopped after {history['steps']} steps: {history['stopped']}")
    if history["val_loss"]:
        first = history["val_loss"][0][1]
        last = history["val_loss"][-1][1]
        trend = ", levelled off" if history["plateaued"] else ", still falling"
        progress.line(
            f"{name}: validation loss {first:.4f} -> {last:.4f}, lowest after step "
            f"{history['best_step']}"
            + ("" if history["late_improvement"] is None else trend)
            + f"; the policy after step {history['val_loss'][-1][0]} is kept"
        )
    steps = history["steps"]
    skipped = history["skipped_steps"]
    if skipped:
        progress.line(
            f"warning: {name} skipped {skipped} of its {steps} steps: their gradients hold NaN or "
            "infinity; the losses are those of the others. A lower sft.lr may help"
        )
    if steps and history["zero_gradient_steps"] == steps - skipped:
        progress.line(
            f"warning: {name} learned nothing: the gradients of its {steps - skipped} steps are "
            "all zero"
        )
