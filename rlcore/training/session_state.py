"""Save, check and restore the state of a session in a checkpoint's `state.json`.

The state has counters, the values that plugins have set, and the extents (length and digest) of the
files that the checkpoint depends on. The check needs no workers; :mod:`rlcore.training.resume`
calls it.
"""

from __future__ import annotations

import contextlib
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rlcore.contracts.errors import CheckpointError
from rlcore.contracts.run import Steering, Totals
from rlcore.files.damaged_files import damaged_error, damaged_on
from rlcore.files.digests import Extent
from rlcore.runs import history, kept
from rlcore.runs.checkpoint import Checkpoint, load_checkpoint
from rlcore.runs.folder import METRICS, RunFolder
from rlcore.runs.state import DEPENDS_ON, STATE, dependencies, replace_facts
from rlcore.training.session import Session

SAVED = ("seed", "totals", "steering", "seconds", "best", "successes", DEPENDS_ON)
"""Keys of the dict that :func:`state` returns."""
VALIDATED = "validated"
CHOSEN = "best_validated"
"""Further keys: success by start on validation starts, after the last update if no checkpoint was
judged by it yet, and of the best checkpoint. Checkpoints of earlier versions lack them."""
UNJUDGED = "unjudged"
"""Further key: whether the run was interrupted before it played validation starts that were due."""
AHEAD = "ahead"
"""Further key of that dict, if the run has played the rollout after the checkpoint."""


def state(session: Session) -> dict[str, Any]:
    """Return the session's state for a checkpoint; :func:`restore_state` restores it."""
    session.trackers.sync()
    folder = session.folder
    depends_on = (folder.metrics, folder.before, folder.sampling, folder.forgetting)
    return {
        "seed": session.config.runner.seed,
        "totals": vars(session.totals),
        "steering": vars(session.steering),
        "seconds": session.clock.seconds,
        "best": session.best,
        "successes": session.successes,  # since the best checkpoint was last chosen
        VALIDATED: kept.to_json(session.validated),
        CHOSEN: kept.to_json(session.choice.best),
        UNJUDGED: session.unjudged,
        **({} if session.ahead is None else {AHEAD: session.ahead}),
        DEPENDS_ON: dict(_extent(folder, path) for path in depends_on if path.is_file()),
    }


def _extent(folder: RunFolder, path: Path) -> tuple[str, dict[str, Any]]:
    """Return a file's path in the run folder, and the fields of its present extent."""
    return path.relative_to(folder.path).as_posix(), asdict(Extent.of(path))


def add_dependencies(folder: RunFolder, at: Checkpoint, path: Path) -> None:
    """Add a file to the dependencies of a checkpoint that was written before the file.

    Args:
        folder: the run folder.
        at: the checkpoint; its `state.json` is rewritten.
        path: the file, in the run folder.
    """
    name, extent = _extent(folder, path)
    at.state[DEPENDS_ON][name] = extent
    replace_facts(at.path / STATE, state=at.state)


def restore_state(session: Session, at: Checkpoint) -> None:
    """Restore the state that :func:`state` returned from a checkpoint into a session."""
    saved = at.state
    session.update = at.step
    session.totals, session.steering = _counters(at)
    for phase, seconds in saved["seconds"].items():
        session.clock.add(phase, seconds)
    session.best = saved["best"]
    session.successes = list(saved["successes"])
    session.validated = kept.from_json(saved.get(VALIDATED))
    session.choice = kept.Choice(kept.from_json(saved.get(CHOSEN)))
    session.unjudged = saved.get(UNJUDGED, False)
    session.ahead = saved.get(AHEAD) if session.config.runner.overlaps else None


def check_state(at: Checkpoint, seed: int) -> None:
    """Check that :func:`restore_state` can restore a checkpoint.

    Args:
        at: the checkpoint.
        seed: the seed of the run that resumes.

    Raises:
        CheckpointError: the checkpoint has another seed, its state lacks keys or has other fields,
            or the metrics file does not have the updates before it.
    """
    lacking = [name for name in SAVED if name not in at.state]
    if lacking:
        raise damaged_error(at.path / STATE, f"state lacks {', '.join(lacking)}")
    _counters(at)
    if at.state["seed"] != seed:
        raise CheckpointError(
            f"{at.path} is of a run with seed {at.state['seed']}, runner.seed is {seed}"
        )
    _check_log(at)


def _counters(at: Checkpoint) -> tuple[Totals, Steering]:
    """Return the counters and the steering of a checkpoint.

    Raises:
        CheckpointError: they have other fields, which another version may have written.
    """
    with damaged_on(at.path / STATE):
        return Totals(**at.state["totals"]), Steering(**at.state["steering"])


def extents(at: Checkpoint) -> dict[str, Extent]:
    """Return the extents of the files that a checkpoint depends on, by path in the run folder.

    Raises:
        CheckpointError: the state does not list them, or lists no metrics file.
    """
    extents = dependencies(at.path / STATE, at.state)
    if METRICS not in extents:
        raise damaged_error(at.path / STATE, f"state.{DEPENDS_ON} names no {METRICS}")
    return extents


def _check_log(at: Checkpoint) -> None:
    """Check that the metrics file begins with the metrics up to a checkpoint.

    Raises:
        CheckpointError: the file is lost, truncated, changed, or that of another run.
    """
    log = at.path.parent.parent / METRICS
    fault = extents(at)[METRICS].fault(log)
    if fault is not None:
        raise CheckpointError(
            f"{log} {fault}: {at.path.name} was written with another one, which is "
            "lost, has changed or belongs to another run",
            hint=_lost_metrics_hint(at, log),
        )


def _lost_metrics_hint(at: Checkpoint, log: Path) -> str:
    """Return a hint for a checkpoint whose metrics are lost.

    It names the latest earlier checkpoint that the metrics file covers, if there is one.
    """
    for name in reversed(history.read_history(at.path.parent).lineage):
        path = at.path.parent / name
        with contextlib.suppress(CheckpointError):
            earlier = load_checkpoint(path)
            if earlier.step < at.step and extents(earlier)[METRICS].fault(log) is None:
                return f"put it back; or resume from a checkpoint it covers: rlcore resume {path}"
    return (
        f"put it back; the policy is undamaged: a new run can start from it, "
        f"actor.model.model_path={at.policy_path}"
    )
