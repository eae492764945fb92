"""Read a run's history from its checkpoints: the lineage, the latest and the best.

    checkpoints/
      step_000010/      a checkpoint; its `state.json` names those that it came after
      latest, best      one name each, for people and scripts; written from the above, never read
      superseded/       checkpoints that came after an older one from which the run went on

The newest checkpoint tells the history. A checkpoint is written under a hidden name and renamed
when it is whole. What is removed gets a hidden name first. Before a run goes on from an older
checkpoint, the newer ones move to `superseded/`, the newest first. So a run may be killed at any
point, and :func:`settle` does the rest.

Knows nothing of what is in a checkpoint but its `state.json`.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlcore.contracts.errors import CheckpointError
from rlcore.files.atomic import PARTIAL, move, write_text
from rlcore.files.reading import read_text
from rlcore.run_folder.state import STATE, read_facts

LATEST, BEST, SUPERSEDED = "latest", "best", "superseded"
RECORD = "record.json"
"""Told the history of runs of earlier versions."""
_NAME = re.compile(r"step_\d{6,}")


def checkpoint_name(step: int) -> str:
    """Of the folder of a checkpoint."""
    return f"step_{step:06d}"


def require_own_name(path: Path, step: int) -> None:
    """Raise CheckpointError where a folder is called as another update's checkpoint than its own.
    Names of other forms, as copies have them, say nothing."""
    own = path.with_name(checkpoint_name(step))
    if _NAME.fullmatch(path.name) and path != own:
        raise CheckpointError(
            f"{path} holds the checkpoint after update {step}: it was renamed",
            hint=f"move this copy out of {path.parent}" if own.exists() else f"mv {path} {own}",
        )


@dataclass(frozen=True)
class History:
    """Where a run is and how it got there.

    Attributes:
        lineage: names of the checkpoints that are on the disk, oldest first.
        best: the name of the best of them, None where none was marked.
    """

    lineage: tuple[str, ...] = ()
    best: str | None = None

    @property
    def latest(self) -> str | None:
        return self.lineage[-1] if self.lineage else None

    def after(self, name: str, *, best: bool = False, keep: int | None = None) -> History:
        """The history with one checkpoint more, and only the newest `keep` (1 or more) and the
        best."""
        names, marked = (*self.lineage, name), name if best else self.best
        stay = names if keep is None else {*names[-keep:], marked}
        return History(tuple(each for each in names if each in stay), marked)


def checkpoint_names(folder: Path) -> list[str]:
    """Names of the checkpoints in a folder, oldest first. One may be damaged, or renamed."""
    names = (entry.name for entry in folder.glob("step_*") if entry.is_dir())
    return sorted((name for name in names if _NAME.fullmatch(name)), key=_step)


def read_history(folder: Path) -> History:
    """The history of the run whose `checkpoints/` is `folder`; an empty one if it has none. If the
    newest checkpoint is damaged, it is a list of all: loading that one says what is wrong."""
    names = checkpoint_names(folder)
    newest = _facts(folder, names[-1]) if names else None
    if newest is None:
        return History(tuple(names))
    lineage = tuple(name for name in names if name in {*newest["lineage"], names[-1]})
    return History(lineage, newest["best"] if newest["best"] in lineage else None)


def require_in_history(folder: Path, name: str) -> None:
    """Raise CheckpointError unless a run can go on from the checkpoint of that name."""
    lineage = read_history(folder).lineage
    if name not in lineage:
        raise CheckpointError(
            f"{folder / name} does not belong to the history of this run "
            f"({', '.join(lineage) or 'no checkpoint'}), so it can't be resumed from",
            hint=f"a new run can begin with its policy: actor.model.model_path={folder / name}"
            "/actor",
        )


def require_latest(folder: Path, name: str | None) -> None:
    """Raise CheckpointError unless the latest checkpoint is the one that the run wrote last: if the
    folder was moved, a new history would begin without the earlier checkpoints."""
    found = read_history(folder).latest
    if found != name:
        raise CheckpointError(
            f"{folder} was moved, removed or replaced while the run was writing to it: its latest "
            f"checkpoint is {found or 'none'} instead of {name or 'none'}",
            hint="put it back as it was, and the run goes on from there: rlcore resume RUN",
        )


def supersede_newer(folder: Path, name: str) -> list[str]:
    """Move all checkpoints that are newer than one out of the way, before the run goes on from it.

    Returns:
        The names of those.

    Raises:
        CheckpointError: it is not in the history of the run.
    """
    require_in_history(folder, name)
    newer = [each for each in checkpoint_names(folder) if _step(each) > _step(name)]
    for each in reversed(newer):  # so that the newest that is left always tells the history
        move(folder / each, folder / SUPERSEDED)
    settle(folder)
    return newer


def settle(folder: Path) -> None:
    """Make a folder look as its newest checkpoint says: remove those that were not kept, and write
    `latest` and `best`. The caller holds the run. Finishes what a killed run began."""
    names = checkpoint_names(folder)
    newest = _facts(folder, names[-1]) if names else None
    if newest is None:
        return
    before = _facts(folder, newest["parent"]) if newest["parent"] in names else None
    for name in before["lineage"] if before else ():  # its own is the last, and tells the others
        if name in names and name not in newest["lineage"]:
            _remove(folder, name)
    _point(folder / LATEST, names[-1])
    _point(folder / BEST, read_history(folder).best)
    (folder / RECORD).unlink(missing_ok=True)  # it would say what is no longer so


# -- parts ----------------------------------------------------------------------------------------


def _facts(folder: Path, name: str) -> dict[str, Any] | None:
    """The `state.json` of a checkpoint; None if it is damaged, or of another one."""
    try:
        facts = read_facts(folder / name / STATE)
    except CheckpointError:
        return None
    return facts if name == checkpoint_name(facts["step"]) else None


def _remove(folder: Path, name: str) -> None:
    hidden = folder / f"{PARTIAL}{name}"  # swept away if the run is killed now
    (folder / name).rename(hidden)
    shutil.rmtree(hidden)


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
