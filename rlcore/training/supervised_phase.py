"""Run a part of supervised training on the workers, and save and publish its policy."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlcore.config.schema import SFTConfig
from rlcore.files.atomic import new_folder, write_text
from rlcore.files.damaged_files import read_mapping
from rlcore.files.digests import seal
from rlcore.training.session import Session

STEPS = "rlcore_supervised.json"
"""Name of the file that says how many supervised steps led to a saved policy."""


def train_supervised(
    session: Session,
    phase: str,
    title: str,
    data: str | Path,
    sft: SFTConfig,
    *,
    total: int | None = None,
    options: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Run supervised training on all actor ranks with a progress bar; return its history.

    Args:
        session: the run's session.
        phase: name under which the time is counted.
        title: title of the progress bar.
        data: the demonstrations.
        sft: settings of this part.
        total: optimizer steps of this part; None: not known.
        options: further arguments of :meth:`rlcore.workers.actor_worker.ActorWorker.supervised`.
    """
    with session.clock.measure(phase), session.progress.phase(title, total) as bar:

        def show(state: Mapping[str, float]) -> None:
            if "steps" in state:
                labels = {"train_loss": "loss", "val_loss": "val"}
                losses = [f"{labels[key]} {state[key]:.3f}" for key in labels if key in state]
                bar.set(int(state["steps"]), note=", ".join(losses))

        history = session.group.supervised(str(data), sft, show, options)
        last = {name: history[name][-1][1] for name in ("train_loss", "val_loss") if history[name]}
        show({"steps": history["steps"], "seconds": history["seconds"], **last})
    return history


def steps_before(session: Session) -> int:
    """Return the supervised steps that led to the weights that the run began from.

    They are known of the folder `sft` of a run. So training that goes on from there, and a control,
    draw batches that the training of these weights has not had.
    """
    path = session.config.actor.model.model_path
    return steps_of(Path(path)) if path is not None else 0


def steps_of(policy: Path) -> int:
    """Return the supervised steps, of all runs, that led to a saved policy; 0: it does not say."""
    path = policy / STEPS
    return int(read_mapping(path)["steps"]) if path.is_file() else 0


def write_steps(policy: Path, steps: int) -> None:
    """Write the number that :func:`steps_of` reads."""
    write_text(policy / STEPS, json.dumps({"steps": steps}) + "\n")


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
