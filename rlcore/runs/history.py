"""Read a run's history from its checkpoints: the lineage, the latest and the best.

    checkpoints/
      step_000010/      a checkpoint; its `state.json` names the checkpoints before it
      latest, best      name of one checkpoint each, for people and scripts; never read as history
      superseded/       newer checkpoints that were moved aside when the run resumed from an older

The `state.json` of the newest checkpoint has the history. A checkpoint is written under a hidden
name and renamed when it is complete. One that is removed is first renamed to a hidden name. Before
a run resumes from an older checkpoint, the newer ones move to `superseded/`, the newest first. So a
run may be killed at any point, and :func:`settle` completes the interrupted change.

Of a checkpoint this module reads only `state.json`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlcore.contracts.errors import CheckpointError
from rlcore.files.atomic import move, remove_folder, write_text
from rlcore.files.reading import read_text
from rlcore.runs.state import STATE, read_facts, replace_facts

LATEST = "latest"
BEST = "best"
SUPERSEDED = "superseded"
_NAME = re.compile(r"step_\d{6,}")


def checkpoint_name(step: int) -> str:
    """Return the name of a checkpoint's folder, e.g. `step_000010`."""
    return f"step_{step:06d}"


def require_own_name(path: Path, step: int) -> None:
    """Raise CheckpointError if a checkpoint's folder has the name of another step's checkpoint.

    Names that are not of the form `step_NNNNNN`, as copies may have, are accepted.

    Args:
        path: the checkpoint's folder.
        step: the step in its `state.json`.
    """
    own = path.with_name(checkpoint_name(step))
    if _NAME.fullmatch(path.name) and path != own:
        raise CheckpointError(
            f"{path} holds the checkpoint after update {step}: it was renamed",
            hint=f"move this copy out of {path.parent}" if own.exists() else f"mv {path} {own}",
        )


@dataclass(frozen=True)
class History:
    """The checkpoints of a run.

    Attributes:
        lineage: names of the checkpoints on the disk, oldest first.
        best: name of the best of them; None if none was marked or it is no longer on the disk.
    """

    lineage: tuple[str, ...] = ()
    best: str | None = None

    @property
    def latest(self) -> str | None:
        return self.lineage[-1] if self.lineage else None

    def after(self, name: str, *, best: bool = False, keep: int | None = None) -> History:
        """Return the history after a checkpoint was added.

        Args:
            name: name of the new checkpoint.
            best: whether the new checkpoint is the best so far.
            keep: number of newest checkpoints to keep in addition to the best, at least 1; None for
                all.
        """
        names = (*self.lineage, name)
        marked = name if best else self.best
        remaining = names if keep is None else {*names[-keep:], marked}
        return History(tuple(kept_name for kept_name in names if kept_name in remaining), marked)


def checkpoint_names(folder: Path) -> list[str]:
    """Return the names of the checkpoints in a folder, oldest first.

    Only the names are read, so a checkpoint may be damaged or renamed.
    """
    names = (entry.name for entry in folder.glob("step_*") if entry.is_dir())
    return sorted((name for name in names if _NAME.fullmatch(name)), key=_step)


def read_history(folder: Path) -> History:
    """Read the history of a run from its `checkpoints/` folder; empty without checkpoints.

    If the newest checkpoint is damaged or renamed, the lineage is all checkpoints on the disk;
    loading the newest then raises an error that names the fault.
    """
    names = checkpoint_names(folder)
    newest = _facts(folder, names[-1]) if names else None
    if newest is None:
        return History(tuple(names))
    lineage = tuple(name for name in names if name in {*newest["lineage"], names[-1]})
    return History(lineage, newest["best"] if newest["best"] in lineage else None)


def require_in_history(folder: Path, name: str) -> None:
    """Raise CheckpointError unless the checkpoint of that name is in the run's lineage."""
    lineage = read_history(folder).lineage
    if name not in lineage:
        raise CheckpointError(
            f"{folder / name} does not belong to the history of this run "
            f"({', '.join(lineage) or 'no checkpoint'}), so it can't be resumed from",
            hint=f"a new run can begin with its policy: actor.model.model_path={folder / name}"
            "/actor",
        )


def require_latest(folder: Path, name: str | None) -> None:
    """Raise CheckpointError unless the latest checkpoint on the disk is the expected one.

    If the folder was moved during the run, the next checkpoint would begin a new history without
    the earlier checkpoints.

    Args:
        folder: the run's `checkpoints/`.
        name: name of the checkpoint that the run wrote last or resumed from; None: no checkpoint.
    """
    latest = read_history(folder).latest
    if latest != name:
        raise CheckpointError(
            f"{folder} was moved, removed or replaced while the run was writing to it: its latest "
            f"checkpoint is {latest or 'none'} instead of {name or 'none'}",
            hint="put it back as it was, and the run goes on from there: rlcore resume RUN",
        )


def judge_newest(folder: Path, name: str, state: Mapping[str, Any], *, best: bool) -> None:
    """Replace the state of the run in the newest checkpoint, which was written before it was
    judged.

    Args:
        folder: the run's `checkpoints/`.
        name: name of the newest checkpoint.
        state: state of the run after the checkpoint was judged.
        best: whether it is the best checkpoint so far.
    """
    replace_facts(folder / name / STATE, state=dict(state), **({"best": name} if best else {}))
    settle(folder)


def supersede_newer(folder: Path, name: str) -> list[str]:
    """Move all checkpoints newer than `name` to `superseded/`, before the run resumes from it.

    Returns:
        The names of the moved checkpoints, oldest first.

    Raises:
        CheckpointError: the checkpoint `name` is not in the history of the run.
    """
    require_in_history(folder, name)
    newer = [
        newer_name for newer_name in checkpoint_names(folder) if _step(newer_name) > _step(name)
    ]
    # newest first: if the process is killed, the newest remaining checkpoint has the history
    for newer_name in reversed(newer):
        move(folder / newer_name, folder / SUPERSEDED)
    settle(folder)
    return newer


def settle(folder: Path) -> None:
    """Bring a `checkpoints/` folder into the state that its newest checkpoint describes.

    Removes the checkpoints that are no longer kept, and writes `latest` and `best`. This also
    completes changes that a killed run began. Does nothing if the newest checkpoint is damaged. The
    caller must hold the run's lock.
    """
    names = checkpoint_names(folder)
    newest = _facts(folder, names[-1]) if names else None
    if newest is None:
        return
    before = _facts(folder, newest["parent"]) if newest["parent"] in names else None
    # The parent is the last name in its own lineage, so it is removed last: if killed meanwhile,
    # the next call still finds in it the names of the others.
    for name in before["lineage"] if before else ():
        if name in names and name not in newest["lineage"]:
            remove_folder(folder / name)
    _point(folder / LATEST, names[-1])
    _point(folder / BEST, read_history(folder).best)


# -- parts ----------------------------------------------------------------------------------------


def _facts(folder: Path, name: str) -> dict[str, Any] | None:
    """Return the `state.json` of a checkpoint; None if it is damaged or of another step."""
    try:
        facts = read_facts(folder / name / STATE)
    except CheckpointError:
        return None
    return facts if name == checkpoint_name(facts["step"]) else None


def _point(pointer: Path, name: str | None) -> None:
    if name is None:
        pointer.unlink(missing_ok=True)
        return
    try:
        if read_text(pointer) == f"{name}\n":
            return
    except (OSError, ValueError):
        pass
    write_text(pointer, f"{name}\n")


def _step(name: str) -> int:
    return int(name.partition("_")[2])
