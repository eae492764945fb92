"""Run supervised training on the workers, save its state at intervals, and publish its policy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from operator import itemgetter
from pathlib import Path
from types import MappingProxyType
from typing import Any

from rlcore.config.schema import SFTConfig
from rlcore.files.atomic import new_folder
from rlcore.files.digests import seal
from rlcore.runs.sft_record import LOSSES
from rlcore.training.progress import Phase
from rlcore.training.session import Session
from rlcore.training.supervised_states import latest_state, save_state
from rlcore.training.supervised_steps import steps_of, write_steps
from rlcore.utils.stopping import StopSignals

PART_SECONDS = 5.0
"""Aim of the wall time of a call of the workers, after which the losses are logged and a signal is
noticed. It has no influence on the result."""


class SupervisedTraining:
    """Supervised training on all actor ranks, with a progress bar. Losses are logged as they come.

    Args:
        session: the run's session.
        name: "sft" or "control": the phase whose time is counted, and prefix of the losses.
        title: title of the progress bar.
        data: the demonstrations.
        sft: settings of this training.
        options: further arguments of
            :meth:`rlcore.workers.actor_worker.ActorWorker.begin_supervised`.

    Attributes:
        history: :meth:`rlcore.learner.supervised.SupervisedHistory.summary` of the steps so far.
    """

    def __init__(
        self,
        session: Session,
        name: str,
        title: str,
        data: str | Path,
        sft: SFTConfig,
        options: Mapping[str, Any],
    ) -> None:
        self._session = session
        self._name = name
        self._title = title
        self._logged = dict.fromkeys(LOSSES, 0)
        reading = session.progress.phase(f"{title}: reading data", quiet=True)
        with session.clock.measure(name), reading:
            self.history = session.group.begin_supervised(str(data), sft, options)
        self._log()

    @property
    def steps(self) -> int:
        """Return the number of steps so far."""
        return int(self.history["steps"])

    @property
    def planned_steps(self) -> int:
        """Return the number of steps after which training ends, if nothing ends it earlier."""
        return int(self.history["planned_steps"])

    @property
    def ended(self) -> bool:
        """Return whether training has ended."""
        return bool(self.history["stopped"])

    def train(
        self,
        until: int | None = None,
        *,
        interval: int | None = None,
        between: Callable[[], None] | None = None,
    ) -> None:
        """Train until `until` steps are made in total, or to the end.

        Args:
            interval: `between` is called after each multiple of this number of steps, and perhaps
                after others.
            between: called after some steps and at the end; it may raise to stop.
        """
        session = self._session
        part_steps = 1
        with session.progress.phase(self._title, self.planned_steps) as bar:
            show = partial(_show, bar)
            while not self.ended and self.steps != until:
                before = self.steps
                ends = [before + part_steps]
                if until is not None:
                    ends.append(until)
                if interval is not None:
                    ends.append(before - before % interval + interval)
                with session.clock.measure(self._name) as part:
                    progress = session.group.supervised(min(ends), show)
                for kind in LOSSES:
                    self.history[kind] += progress.pop(kind)
                self.history |= progress
                rate = (self.steps - before) / max(part.seconds, 1e-9)
                part_steps = max(1, int(rate * PART_SECONDS))
                self._log()
                _show(bar, self.history)
                if between is not None:
                    between()

    def end(self) -> None:
        """Free what the workers need for this training besides the policy."""
        self._session.group.end_supervised()

    def _log(self) -> None:
        log_losses(self._session, self._name, self.history, self._logged)
        self._logged = {kind: len(self.history[kind]) for kind in LOSSES}


def _show(bar: Phase, state: Mapping[str, Any]) -> None:
    """Show the steps and the latest losses of a history, or of a worker's report."""
    if "steps" not in state:
        return
    losses = []
    for kind, label in (("train_loss", "loss"), ("val_loss", "val")):
        value = state.get(kind)
        if isinstance(value, list):  # of a history
            value = value[-1][1] if value else None
        if value is not None:
            losses.append(f"{label} {value:.3f}")
    bar.set(int(state["steps"]), note=", ".join(losses))


def log_losses(
    session: Session,
    name: str,
    history: Mapping[str, Any],
    since: Mapping[str, int] = MappingProxyType({}),
) -> None:
    """Log the losses in a history, as `NAME/train_loss` and `NAME/val_loss`, in the order of steps.

    A step is validated before it is made, so that order is the same in however many parts the
    history is logged.

    Args:
        since: number of entries, by kind, that were logged before.
    """
    lines = [
        (step, kind, loss)
        for kind in ("val_loss", "train_loss")
        for step, loss in history[kind][since.get(kind, 0) :]
    ]
    for step, kind, loss in sorted(lines, key=itemgetter(0)):  # stable: validation first
        session.trackers.log({f"{name}/{kind}": loss}, step=step)


def train_supervised(
    session: Session, data: str | Path, sft: SFTConfig, *, made: int = 0
) -> dict[str, Any]:
    """Train for `sft.max_steps` steps, from the latest saved state of an interrupted run if any.

    Its state is saved every `sft.save_interval` steps, and when a signal stops the run. The caller
    removes `sft_steps` once the trained policy itself is on the disk.

    Args:
        session: the run's session.
        data: the demonstrations.
        sft: settings of this training.
        made: steps of this run that led to the weights that the workers have.

    Returns:
        The history of these steps.

    Raises:
        KeyboardInterrupt: a signal asked the run to stop; the state was saved.
        CheckpointError: a saved state is damaged, or the state can't be written.
    """
    folder = session.folder
    before = steps_before(session)
    saved = latest_state(folder, before + made)
    options = {
        "made": made,
        "before": before,
        "saved": None if saved is None else str(saved),
    }
    training = SupervisedTraining(session, "sft", "SFT", data, sft, options)
    if saved is not None:
        session.progress.line(f"sft: continues after step {made + training.steps}")
    last_saved = training.steps

    def save() -> None:
        nonlocal last_saved
        if training.steps > last_saved:
            last_saved = training.steps
            save_state(session, made + last_saved, before + made + last_saved)

    def stop_if_requested() -> None:
        if stop.requested:
            save()
            session.progress.line(
                f"stopped after supervised step {made + training.steps}; to continue: "
                f"rlcore resume {folder.path}"
            )
            raise stop.interruption

    def between() -> None:
        stop_if_requested()
        if sft.save_interval and training.steps % sft.save_interval == 0 and not training.ended:
            save()

    at_once = f"rlcore resume {folder.path} continues from the last saved state"
    with StopSignals(session.progress.line, at_once) as stop:
        training.train(interval=sft.save_interval, between=between)
    stop_if_requested()  # a signal may have come after the last step
    training.end()
    return training.history


def steps_before(session: Session) -> int:
    """Return the supervised steps that led to the weights that the run began from.

    They are known of the folder `sft` of a run. So training that goes on from there, and a control,
    draw batches that the training of these weights has not had.
    """
    path = session.config.actor.model.model_path
    return steps_of(Path(path)) if path is not None else 0


def save_policy(session: Session, path: Path, steps: int | None = None) -> None:
    """Save the policy to a sealed folder, which appears complete or not at all.

    Args:
        session: the run's session.
        path: the folder.
        steps: supervised steps, of all runs, that led to it; None: nobody begins from it.
    """
    with new_folder(path) as partial:
        session.group.save(partial)
        if steps is not None:
            write_steps(partial, steps)
        seal(partial, session.config.runner.seed)


def load_policy(session: Session, path: Path) -> None:
    """Load a saved policy on every rank, and send it to the rollout workers."""
    session.group.load(path)
    session.group.sync()
