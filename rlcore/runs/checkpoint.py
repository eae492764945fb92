"""Write and read checkpoints: the policy, the optimizer and the counters of a run. No pickle.

    checkpoints/
      step_000010/
        actor/                  what the policy's `save_pretrained` wrote
        learner.safetensors     tensors of the learner: optimizer moments, reference weights; one
                                file for each rank if they are sharded
        learner.json            counters of the learner
        state.json              the state of the run, sizes and digests of all files, and the names
                                of earlier checkpoints, see :mod:`rlcore.runs.history`

A checkpoint is written under a temporary name, flushed and renamed, so it is either complete or
absent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlcore.contracts.errors import NO_SPACE, CheckpointError, choices_message
from rlcore.files.atomic import new_folder
from rlcore.files.damaged_files import OtherVersionError
from rlcore.files.digests import DIGEST, check_digests, check_sizes
from rlcore.runs.history import (
    BEST,
    LATEST,
    checkpoint_name,
    checkpoint_names,
    read_history,
    require_own_name,
    settle,
)
from rlcore.runs.learner_state import COUNTERS, check_learner
from rlcore.runs.state import STATE, read_facts, write_facts

POLICY = "actor"
EARLIER = "earlier checkpoints are whole: rlcore resume RUN"
NOT_BEGUN = "nothing was learned yet; runner.logger.log_path=FOLDER puts the run on another disk"


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint read back.

    Attributes:
        path: the checkpoint's folder.
        step: number of policy updates done.
        policy_path: the folder from which to load the policy (`actor.model.model_path`).
        state: the state of the run, as passed to :func:`save_checkpoint`.
    """

    path: Path
    step: int
    policy_path: Path
    state: dict[str, Any]


def save_checkpoint(
    folder: Path,
    step: int,
    *,
    save_policy: Callable[[Path], object],
    save_learner: Callable[[Path], object] | None = None,
    state: Mapping[str, Any] | None = None,
    best: bool = False,
    keep: int | None = None,
) -> Path:
    """Write `folder/step_NNNNNN/`, the new latest checkpoint, and remove those no longer kept.

    Args:
        folder: the run's `checkpoints/`.
        step: number of policy updates done, larger than that of the latest checkpoint.
        save_policy: writes the policy into the folder that it is given (`save_pretrained`, in the
            process that holds the policy).
        save_learner: writes the state that the learner needs to resume into the folder that it is
            given (:func:`rlcore.runs.learner_state.write_learner`).
        state: JSON values of the run: counters, seconds, the size of the metrics file.
        best: whether this is the best checkpoint so far.
        keep: number of newest checkpoints to keep in addition to the best, at least 1; None for
            all.

    Raises:
        CheckpointError: the checkpoint can't be written, or already exists.
    """
    name = checkpoint_name(step)
    target = folder / name
    with writing(target):
        before = read_history(folder)
        history = before.after(name, best=best, keep=keep)
        with new_folder(target) as partial:
            (partial / POLICY).mkdir()
            save_policy(partial / POLICY)
            if save_learner is not None:
                save_learner(partial)
            write_facts(
                partial,
                step,
                state or {},
                parent=before.latest,
                lineage=history.lineage,
                best=history.best,
            )
        settle(folder)
    return target


@contextmanager
def writing(path: Path, *, hint: str = EARLIER) -> Iterator[None]:
    """Turn write errors of the body into an error that names `path`.

    Args:
        path: the file or folder that the body writes.
        hint: hint of the error; if the disk is full, it is preceded by "free some space".

    Raises:
        CheckpointError: the disk is full, or another error of the file system occurred.
    """
    from safetensors import SafetensorError

    try:
        yield
    except (OSError, SafetensorError) as error:
        if _no_space(error):
            hint = f"free some space; {hint}"
        raise CheckpointError(f"can't write {path}: {error}", hint=hint) from error


def _no_space(error: Exception) -> bool:
    """Return whether the disk was full. `SafetensorError` has the errno in its message only."""
    if isinstance(error, OSError):
        return error.errno in NO_SPACE
    return any(f"os error {number})" in str(error) for number in NO_SPACE)


def load_checkpoint(path: str | Path, *, verify: bool = False) -> Checkpoint:
    """Check a checkpoint's files and read what the driver needs.

    The workers load the rest: the model loads the policy from `policy_path`, and
    :func:`rlcore.runs.learner_state.read_learner` reads the learner's state.

    Args:
        path: the folder of a checkpoint, a `checkpoints/` folder or a run. The latest checkpoint is
            used for the last two.
        verify: compare files of any size with their digests. Otherwise large files are checked only
            by size and, for the learner's tensors, header (see
            :data:`rlcore.files.digests.READ_ALWAYS`).

    Raises:
        CheckpointError: the checkpoint is missing, incomplete, damaged, renamed or not written by
            rlcore.
    """
    folder = find_checkpoint(Path(path))
    try:
        facts = _checked(folder, verify=verify)
    except OtherVersionError:  # earlier checkpoints have that version too: no use as a fallback
        raise
    except CheckpointError as error:
        hint = _earlier(folder, verify=verify) or error.hint
        raise CheckpointError(error.message, hint=hint) from error
    require_own_name(folder, facts["step"])
    return Checkpoint(
        path=folder,
        step=facts["step"],
        policy_path=folder / POLICY,
        state=facts["state"],
    )


def find_checkpoint(path: Path) -> Path:
    """Return `path` if it is a checkpoint, else the latest one of a `checkpoints/` folder or run.

    Raises:
        CheckpointError: there is no checkpoint.
    """
    if (path / STATE).is_file():
        return path
    for folder in (path, path / "checkpoints"):
        latest = read_history(folder).latest
        if latest is not None:
            return folder / latest
    if not path.exists():
        raise CheckpointError(f"there is no checkpoint at {path}")
    if (path / "config.yaml").is_file():
        raise CheckpointError(f"the run {path} has no checkpoint: none in {path / 'checkpoints'}")
    contents = (
        ", ".join(sorted(entry.name for entry in path.iterdir())[:5]) if path.is_dir() else ""
    )
    raise CheckpointError(
        f"{path} is not a checkpoint of rlcore: it has no {STATE}"
        + (f" but {contents}" if contents else ""),
        hint="give a folder like <run>/checkpoints/step_000010, or the run's folder",
    )


def named_checkpoint(folder: Path, name: str) -> Path:
    """Return the checkpoint of a `checkpoints/` folder by name: `latest`, `best` or `step_NNNNNN`.

    Raises:
        CheckpointError: no checkpoint has that name.
    """
    if name == LATEST:
        return find_checkpoint(folder)
    best = read_history(folder).best
    if name == BEST and best is not None:
        return folder / best
    names = checkpoint_names(folder)
    if name not in names:
        raise CheckpointError(
            f"{folder} has no checkpoint {name!r}{choices_message(name, names)}",
            hint="runner.keep_best=true lets a run mark its best one" if name == BEST else None,
        )
    return folder / name


def has_checkpoint(folder: Path) -> bool:
    """Return whether a `checkpoints/` folder holds a checkpoint."""
    return bool(checkpoint_names(folder))


def _checked(path: Path, *, verify: bool) -> dict[str, Any]:
    """Check that a checkpoint's files are as they were written, and return its `state.json`.

    Raises:
        CheckpointError: see :func:`load_checkpoint`.
    """
    facts = read_facts(path / STATE)
    check_sizes(path, facts["files"])
    if COUNTERS in facts["files"]:
        check_learner(path)
    check_digests(path, facts[DIGEST], verify=verify)
    return facts


def _earlier(path: Path, *, verify: bool) -> str | None:
    """Return a hint for a damaged checkpoint: use the newest intact one before it.

    All earlier checkpoints are checked, because they may share the damaged file: segments of a
    replay are hard links. None if there is no earlier checkpoint.
    """
    names = checkpoint_names(path.parent)
    earlier = names[: names.index(path.name)] if path.name in names else []
    for name in reversed(earlier):
        with suppress(CheckpointError):
            _checked(path.parent / name, verify=verify)
            return f"take the newest before it that is whole: {path.parent / name}"
    if not earlier:
        return None
    return "none of the checkpoints before it is whole either: copy or download the run again"
