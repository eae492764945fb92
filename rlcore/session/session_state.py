"""Save, check and restore what `state.json` of a checkpoint holds of a session.

Counters, what plugins have set, and how the files beside the checkpoints began. The check needs no
workers; :mod:`rlcore.training.resume` calls it.
"""

from __future__ import annotations

import contextlib
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rlcore.contracts.errors import CheckpointError
from rlcore.contracts.run import Steering, Totals
from rlcore.files.damaged_files import blaming, damaged
from rlcore.files.digests import Extent
from rlcore.run_folder import history
from rlcore.run_folder.checkpoint import Checkpoint, load_checkpoint
from rlcore.run_folder.folder import METRICS, RunFolder
from rlcore.run_folder.state import DEPENDS_ON, STATE, dependencies, write_state
from rlcore.session.session import Session

SAVED = ("seed", "totals", "steering", "seconds", "best", "successes", DEPENDS_ON)
"""What :func:`state` saves, by name."""


def state(session: Session) -> dict[str, Any]:
    """What a checkpoint saves of the session; :func:`restore_state` is the reverse."""
    session.trackers.sync()
    folder = session.folder
    relied_on = (folder.metrics, folder.before, folder.forgetting)
    return {
        "seed": session.config.runner.seed,
        "totals": vars(session.totals),
        "steering": vars(session.steering),
        "seconds": session.clock.seconds,
        "best": session.best,
        "successes": session.successes,  # since the best was last judged
        DEPENDS_ON: dict(_extent(folder, path) for path in relied_on if path.is_file()),
    }


def _extent(folder: RunFolder, path: Path) -> tuple[str, dict[str, Any]]:
    return path.relative_to(folder.path).as_posix(), asdict(Extent.of(path))


def add_dependencies(folder: RunFolder, at: Checkpoint, path: Path) -> None:
    """Let a checkpoint rely on a file that was recomputed since it was written."""
    name, extent = _extent(folder, path)
    at.state[DEPENDS_ON][name] = extent
    write_state(at.path / STATE, at.state)


def restore_state(session: Session, at: Checkpoint) -> None:
    """Give a session what :func:`state` saved."""
    saved = at.state
    session.update = at.step
    session.totals, session.steering = _counters(at)
    for phase, seconds in saved["seconds"].items():
        session.clock.add(phase, seconds)
    session.best = saved["best"]
    session.successes = list(saved["successes"])


def check_state(at: Checkpoint, seed: int) -> None:
    """Refuse a checkpoint from which :func:`restore_state` could not restore.

    Raises:
        CheckpointError: of another seed, its state is not that of a run, or the metrics are not
            those of the updates before it.
    """
    lacking = [name for name in SAVED if name not in at.state]
    if lacking:
        raise damaged(at.path / STATE, f"state lacks {', '.join(lacking)}")
    _counters(at)
    if at.state["seed"] != seed:
        raise CheckpointError(
            f"{at.path} is of a run with seed {at.state['seed']}, runner.seed is {seed}"
        )
    _check_log(at)


def _counters(at: Checkpoint) -> tuple[Totals, Steering]:
    """Raises CheckpointError if they have other fields, as another version may have written."""
    with blaming(at.path / STATE):
        return Totals(**at.state["totals"]), Steering(**at.state["steering"])


def extents(at: Checkpoint) -> dict[str, Extent]:
    """How the files of the run began that a checkpoint stands on, by their paths in its folder.

    Raises:
        CheckpointError: it does not say so.
    """
    extents = dependencies(at.path / STATE, at.state)
    if METRICS not in extents:
        raise damaged(at.path / STATE, f"state.{DEPENDS_ON} names no {METRICS}")
    return extents


def _check_log(at: Checkpoint) -> None:
    """Refuse to go on with metrics that are not those of the updates before a checkpoint.

    Raises:
        CheckpointError: lost, cut off, changed, or of another run.
    """
    log = at.path.parent.parent / METRICS
    fault = extents(at)[METRICS].fault(log)
    if fault is not None:
        raise CheckpointError(
            f"{log} {fault}: {at.path.name} was written with another, which is lost, changed or of "
            "another run",
            hint=_elsewhere(at, log),
        )


def _elsewhere(at: Checkpoint, log: Path) -> str:
    """Where to go on from with the metrics that there are."""
    for name in reversed(history.read_history(at.path.parent).lineage):
        path = at.path.parent / name
        with contextlib.suppress(CheckpointError):
            earlier = load_checkpoint(path)
            if earlier.step < at.step and extents(earlier)[METRICS].fault(log) is None:
                return f"put it back; or resume from a checkpoint it covers: rlcore resume {path}"
    return (
        f"put it back; the policy is whole: a new run can begin with it, "
        f"actor.model.model_path={at.policy_path}"
    )
