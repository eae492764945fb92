"""Train on demonstrations with supervision, to make the starting checkpoint."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlcore.api import Assembly
from rlcore.config.schema import OWN_SUCCESSES
from rlcore.evaluation.evaluate import conclude, evaluate, evaluate_to_choose
from rlcore.evaluation.record import keep
from rlcore.files.atomic import new_folder, write_text
from rlcore.files.damaged_files import read_json
from rlcore.files.digests import seal
from rlcore.results.tables import EpisodeResult
from rlcore.run_folder.trackers import read_metrics
from rlcore.session.session import Session, open_session
from rlcore.training.checkpoint_trial import try_policy
from rlcore.training.train import checkpoint
from rlcore_demonstrations.collect import demonstrations
from rlcore_demonstrations.control_work import ControlWork

BEST = "control_best"


def run(assembly: Assembly) -> Path:
    """`rlcore sft`: demonstrations, supervised training, evaluation; returns the checkpoint. The
    run has one of no updates too, so that it is served, replayed and gone on with as any other."""
    with open_session(assembly) as session:
        try_policy(session)
        path = starting_policy(session)
        checkpoint(session, 0)
        results = evaluate(session, "sft")
        keep(session, 0, results)
        conclude(session, {"after": results})
        session.progress.line(f"checkpoint: {path}  (use it as actor.model.model_path)")
    return path


def starting_policy(session: Session) -> Path:
    """Demonstrations, then supervised training from the present weights; saved and loaded on
    every rank. Returns the folder of the checkpoint.

    What an interrupted run has already made is taken up."""
    path = session.folder.sft
    if path.is_dir():  # written under another name and renamed, so it is whole
        session.group.load(path)
        session.group.sync()
        if not session.folder.metrics.stat().st_size:  # taken back, for want of a checkpoint
            _log(session, read_json(session.folder.path / "sft.json"), "sft")
        return path
    data = demonstrations(session)
    history = _learn(session, "sft", "SFT", data, session.config.sft.max_steps)
    _log(session, history, "sft")
    return _share(session, path)


def go_on(
    session: Session, start: Path, *, update: int
) -> tuple[dict[str, list[EpisodeResult]], dict[str, Any]]:
    """The control: from the same start, supervised training that is as much work as RL was
    (:mod:`rlcore_demonstrations.control_work`). Where the best checkpoint of RL is chosen on
    validation starts, so is the control's, as often.

    Args:
        update: updates that RL made.

    Returns:
        Its evaluations by label, "control" and "control_best"; and how much work it was.
    """
    config, folder = session.config, session.folder.path
    own, parts = config.sft.control == OWN_SUCCESSES, 1
    if config.chooses_on_validation:
        parts = max(1, update // config.runner.val_check_interval)
    session.trackers.sync()
    work = ControlWork.of_run(
        read_metrics(session.folder.metrics),
        env_steps=session.totals.env_steps,
        episodes=session.totals.episodes,
        num_action_chunks=config.actor.model.num_action_chunks,
    )
    session.group.load(start)
    if own:
        session.group.recall(session.folder.checkpoint(update))
    for name in ("control", BEST):  # of an earlier attempt, which got no further
        shutil.rmtree(folder / name, ignore_errors=True)
    most, chosen = -1.0, 0
    for part in range(1, parts + 1):
        more = {
            "continue_samples": work.samples,
            "until": part / parts,
            "own_successes": own,
        }
        data = config.collect.path or session.folder.demonstrations
        history = _learn(session, "control", "control: more SFT", data, more=more)
        if config.chooses_on_validation:
            session.group.sync()
            success = evaluate_to_choose(session, f"control_{part}", update, policy="control")
            if success > most:
                most, chosen = success, part
                shutil.rmtree(folder / BEST, ignore_errors=True)
                _save(session, folder / BEST)
    record = work.record(history)
    _log(session, {**history, "work": record}, "control")
    _share(session, folder / "control")
    seen = {"control": evaluate(session, "control", update=update, policy="control")}
    if chosen == parts:
        seen[BEST] = seen["control"]
    elif chosen:
        session.group.load(folder / BEST)
        session.group.sync()
        seen[BEST] = evaluate(session, BEST, update=update, policy=BEST)
    return seen, record


def _learn(
    session: Session,
    phase: str,
    title: str,
    data: str | Path,
    total: int | None = None,
    more: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Supervised training on all actor ranks, watched; returns its history."""
    with session.clock.measure(phase), session.progress.phase(title, total) as shown:

        def watch(state: Mapping[str, float]) -> None:
            if "steps" in state:
                words = {"train_loss": "loss", "val_loss": "val"}
                losses = [f"{words[key]} {state[key]:.3f}" for key in words if key in state]
                shown.set(int(state["steps"]), note=", ".join(losses))

        history = session.group.supervised(str(data), session.config.sft, watch, more)
        last = {name: history[name][-1][1] for name in ("train_loss", "val_loss") if history[name]}
        watch({"steps": history["steps"], "seconds": history["seconds"], **last})
    return history


def _save(session: Session, path: Path) -> None:
    with new_folder(path) as partial:
        session.group.save(partial)
        seal(partial, session.config.runner.seed)


def _share(session: Session, path: Path) -> Path:
    _save(session, path)
    session.group.load(path)
    session.group.sync()
    return path


def _log(session: Session, history: dict[str, Any], name: str) -> None:
    """Keep the history as `NAME.json`, and say where validation stands."""
    write_text(session.folder.path / f"{name}.json", json.dumps(history, indent=1) + "\n")
    for kind in ("train_loss", "val_loss"):
        for step, loss in history[kind]:
            session.trackers.log({f"{name}/{kind}": loss}, step=step)
    progress = session.progress
    progress.line(f"{name}: stopped after {history['steps']} steps: {history['stopped']}")
    if history["val_loss"]:
        first, last = history["val_loss"][0][1], history["val_loss"][-1][1]
        late = history["late_improvement"]
        progress.line(
            f"{name}: validation loss {first:.4f} -> {last:.4f}, best at step "
            f"{history['best_step']}" + ("" if late is None else f", {-late:+.1%} late in training")
        )
    steps, skipped = history["steps"], history["skipped_steps"]
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
