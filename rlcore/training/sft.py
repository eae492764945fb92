"""Train supervised: `rlcore sft`, the start of reinforcement learning, and its control."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlcore.config.schema import OWN_SUCCESSES
from rlcore.files.atomic import new_folder, write_text
from rlcore.files.damaged_files import read_json
from rlcore.files.digests import seal
from rlcore.runs.summary import Control
from rlcore.runs.tables import EpisodeResult
from rlcore.runs.trackers import read_metrics
from rlcore.training.assembly import Assembly
from rlcore.training.checkpoint_trial import try_policy
from rlcore.training.checkpoints import write_checkpoint
from rlcore.training.collect import provide_demonstrations
from rlcore.training.control_work import ControlWork
from rlcore.training.evaluate import conclude, evaluate, evaluate_to_choose
from rlcore.training.evaluation_record import keep
from rlcore.training.session import Session, open_session

BEST = "control_best"


def run(assembly: Assembly) -> Path:
    """Run `rlcore sft`: collect or read demonstrations, train, evaluate; return the checkpoint.

    A checkpoint of update 0 is also written, so that the run can be served, replayed and resumed
    like any other.
    """
    with open_session(assembly) as session:
        try_policy(session)
        path = starting_policy(session)
        write_checkpoint(session, 0)
        results = evaluate(session, "sft")
        keep(session, 0, results)
        conclude(session, {"after": results})
        session.progress.line(f"checkpoint: {path}  (use it as actor.model.model_path)")
    return path


def starting_policy(session: Session) -> Path:
    """Train supervised on demonstrations, from the current weights; return the checkpoint's folder.

    The checkpoint is loaded on every rank and sent to the rollout workers. A resumed run reuses the
    checkpoint or the demonstrations that it has already made.
    """
    path = session.folder.sft
    if path.is_dir():  # the folder is renamed into place, so it is complete
        session.group.load(path)
        session.group.sync()
        if not session.folder.metrics.stat().st_size:  # a resume without checkpoint emptied the log
            _log(session, read_json(session.folder.path / "sft.json"), "sft")
        return path
    data = provide_demonstrations(session)
    history = _train(session, "sft", "SFT", data, session.config.sft.max_steps)
    _log(session, history, "sft")
    return _publish(session, path)


def train_control(
    session: Session, start: Path, *, update: int
) -> tuple[dict[str, list[EpisodeResult]], Control]:
    """Train and evaluate the control: supervised training from the same start as reinforcement
    learning, of as much work (:mod:`rlcore.training.control_work`).

    If the best RL checkpoint is chosen on validation starts, the best control checkpoint is chosen
    in the same way, from as many candidates.

    Args:
        session: the run's session.
        start: the checkpoint from which reinforcement learning started.
        update: number of updates of reinforcement learning.

    Returns:
        The evaluations by label, "control" and, if a best one is chosen, "control_best"; and the
        record of the work.
    """
    config = session.config
    folder = session.folder.path
    own_successes = config.sft.control == OWN_SUCCESSES
    parts = 1
    if config.selects_on_validation:
        parts = max(1, update // config.runner.val_check_interval)
    session.trackers.sync()
    work = ControlWork.of_run(
        read_metrics(session.folder.metrics),
        env_steps=session.totals.env_steps,
        episodes=session.totals.episodes,
        num_action_chunks=config.actor.model.num_action_chunks,
    )
    session.group.load(start)
    if own_successes:
        session.group.recall(session.folder.checkpoint(update))
    for name in ("control", BEST):  # left by an attempt that was interrupted
        shutil.rmtree(folder / name, ignore_errors=True)
    best_success = -1.0
    best_part = 0
    for part in range(1, parts + 1):
        options = {
            "continue_samples": work.samples,
            "until": part / parts,
            "own_successes": own_successes,
        }
        data = config.collect.path or session.folder.demonstrations
        history = _train(session, "control", "control: more SFT", data, options=options)
        if config.selects_on_validation:
            session.group.sync()
            success = evaluate_to_choose(session, f"control_{part}", update, policy="control")
            if success > best_success:
                best_success = success
                best_part = part
                shutil.rmtree(folder / BEST, ignore_errors=True)
                _save(session, folder / BEST)
    record = work.record(history)
    _log(session, {**history, "work": record}, "control")
    _publish(session, folder / "control")
    evaluations = {"control": evaluate(session, "control", update=update, policy="control")}
    if best_part == parts:
        evaluations[BEST] = evaluations["control"]
    elif best_part:
        session.group.load(folder / BEST)
        session.group.sync()
        evaluations[BEST] = evaluate(session, BEST, update=update, policy=BEST)
    return evaluations, record


def _train(
    session: Session,
    phase: str,
    title: str,
    data: str | Path,
    total: int | None = None,
    options: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Run supervised training on all actor ranks with a progress bar; return its history."""
    with session.clock.measure(phase), session.progress.phase(title, total) as bar:

        def show(state: Mapping[str, float]) -> None:
            if "steps" in state:
                labels = {"train_loss": "loss", "val_loss": "val"}
                losses = [f"{labels[key]} {state[key]:.3f}" for key in labels if key in state]
                bar.set(int(state["steps"]), note=", ".join(losses))

        history = session.group.supervised(str(data), session.config.sft, show, options)
        last = {name: history[name][-1][1] for name in ("train_loss", "val_loss") if history[name]}
        show({"steps": history["steps"], "seconds": history["seconds"], **last})
    return history


def _save(session: Session, path: Path) -> None:
    """Save the policy to a sealed folder, which appears complete or not at all."""
    with new_folder(path) as partial:
        session.group.save(partial)
        seal(partial, session.config.runner.seed)


def _publish(session: Session, path: Path) -> Path:
    """Save the policy, load the saved one on every rank, and send it to the rollout workers."""
    _save(session, path)
    session.group.load(path)
    session.group.sync()
    return path


def _log(session: Session, history: dict[str, Any], name: str) -> None:
    """Write the history to `NAME.json` and to the trackers, and print a summary."""
    write_text(session.folder.path / f"{name}.json", json.dumps(history, indent=1) + "\n")
    for kind in ("train_loss", "val_loss"):
        for step, loss in history[kind]:
            session.trackers.log({f"{name}/{kind}": loss}, step=step)
    progress = session.progress
    progress.line(f"{name}: stopped after {history['steps']} steps: {history['stopped']}")
    if history["val_loss"]:
        first = history["val_loss"][0][1]
        last = history["val_loss"][-1][1]
        late = history["late_improvement"]
        progress.line(
            f"{name}: validation loss {first:.4f} -> {last:.4f}, best at step "
            f"{history['best_step']}" + ("" if late is None else f", {-late:+.1%} late in training")
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
