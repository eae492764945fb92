"""What a checkpoint keeps of a session in its `state.json`, and whether that can be taken up.

Counters, what plugins have set, and how the files began that lie beside the checkpoints. Knows how
to judge it without workers; :mod:`rlcore.loop.resume` says when.
"""

from __future__ import annotations

import contextlib
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from rlcore.errors import CheckpointError
from rlcore.loop.session import Session
from rlcore.run import Steering, Totals
from rlcore.track import course
from rlcore.track.checkpoint import Checkpoint, load_checkpoint
from rlcore.track.contents import Extent
from rlcore.track.damage import damaged
from rlcore.track.folder import METRICS, RunFolder
from rlcore.track.state import STANDS_ON, STATE, relied_on, write_state

BEFORE = "before"
"""Label of the evaluation that is made once and read back by each resume."""
# What `state` keeps, by the types JSON gives back.
STATE_TYPES: dict[str, type | tuple[type, ...]] = {
    "seed": int,
    "totals": dict,
    "steering": dict,
    "seconds": dict,
    "best": (float, int, type(None)),
    "successes": list,
    STANDS_ON: dict,
}


def state(session: Session) -> dict[str, Any]:
    """What a checkpoint keeps of the session; :func:`put_back` gives it back."""
    session.trackers.sync()
    folder = session.folder
    relied_on = (folder.metrics, folder.evaluations / f"{BEFORE}.parquet")
    return {
        "seed": session.config.runner.seed,
        "totals": vars(session.totals),
        "steering": vars(session.steering),
        "seconds": session.clock.seconds,
        "best": session.best,
        "successes": session.successes,  # since the best was last judged
        STANDS_ON: dict(_extent(folder, path) for path in relied_on if path.is_file()),
    }


def _extent(folder: RunFolder, path: Path) -> tuple[str, dict[str, Any]]:
    return path.relative_to(folder.path).as_posix(), asdict(Extent.of(path))


def stand_on(folder: RunFolder, at: Checkpoint, path: Path) -> None:
    """Let a checkpoint stand on a file that was made again since it was written."""
    name, extent = _extent(folder, path)
    at.state[STANDS_ON][name] = extent
    write_state(at.path / STATE, at.state)


def put_back(session: Session, at: Checkpoint) -> None:
    """Give a session the counters that :func:`state` kept."""
    kept = at.state
    session.update = at.step
    session.totals = Totals(**kept["totals"])
    session.steering = Steering(**kept["steering"])
    for phase, seconds in kept["seconds"].items():
        session.clock.add(phase, seconds)
    session.best = kept["best"]
    session.successes = list(kept["successes"])


def check_kept(at: Checkpoint, seed: int) -> None:
    """Refuse a checkpoint whose state :func:`put_back` could not take up.

    Raises:
        CheckpointError: of another seed, its state is not that of a run, or the metrics are not
            those of the updates before it.
    """
    kept, file = at.state, at.path / STATE
    for name, kind in STATE_TYPES.items():
        if not isinstance(kept.get(name), kind):
            raise damaged(file, f"state.{name} can't be {kept.get(name)!r}")
    if not all(type(success) in (float, int) for success in kept["successes"]):
        raise damaged(file, f"state.successes can't be {kept['successes']!r}")
    totals: dict[str, Any] = kept["totals"]
    wanted = {field.name for field in fields(Totals)}
    if set(totals) != wanted or not all(type(count) is int for count in totals.values()):
        raise damaged(file, f"state.totals must be counts of {sorted(wanted)}, got {totals}")
    _check_steering(file, kept["steering"])
    if kept["seed"] != seed:
        raise CheckpointError(
            f"{at.path} is of a run with seed {kept['seed']}, runner.seed is {seed}"
        )
    _check_log(at)


def _check_steering(file: Path, kept: dict[str, Any]) -> None:
    """Raise CheckpointError unless it is a :class:`Steering`."""
    like = vars(Steering())
    sound = kept.keys() == like.keys() and all(
        type(value) is type(like[name]) for name, value in kept.items()
    )
    factors = [*kept["lr_factors"].values(), *kept["task_weights"].values()] if sound else []
    if not sound or not all(type(number) is float and number >= 0 for number in factors):
        raise damaged(file, f"state.steering can't be {kept!r:.200}")


def extents(at: Checkpoint) -> dict[str, Extent]:
    """How the files of the run began that a checkpoint stands on, by their paths in its folder.

    Raises:
        CheckpointError: it does not say so.
    """
    extents = relied_on(at.path / STATE, at.state)
    if METRICS not in extents:
        raise damaged(at.path / STATE, f"state.{STANDS_ON} names no {METRICS}")
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
    for name in reversed(course.read_history(at.path.parent).lineage):
        path = at.path.parent / name
        with contextlib.suppress(CheckpointError):
            earlier = load_checkpoint(path)
            if earlier.step < at.step and extents(earlier)[METRICS].fault(log) is None:
                return f"put it back; or resume from a checkpoint it covers: rlcore resume {path}"
    return (
        f"put it back; the policy is whole: a new run can begin with it, "
        f"actor.model.model_path={at.policy_path}"
    )
