"""Write and read checkpoints: the policy, the optimizer and the counters of a run. No pickle.

    checkpoints/
      step_000010/
        actor/                  what the policy's `save_pretrained` wrote
        learner.safetensors     tensors of the learner: optimizer moments, reference weights; a file
                                for each rank where ranks divide them
        learner.json            its counters
        state.json              the run's own state, sizes and digests of all files, and the
                                checkpoints before it, see :mod:`rlcore.run_folder.history`

A checkpoint is written under a temporary name, flushed and renamed: it is whole or not there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlcore.contracts.errors import NO_SPACE, CheckpointError, choosing
from rlcore.files.atomic import new_folder
from rlcore.files.damaged_files import OtherVersionError
from rlcore.files.digests import DIGEST, check_digests, check_sizes
from rlcore.run_folder.history import (
    BEST,
    LATEST,
    checkpoint_name,
    checkpoint_names,
    read_history,
    require_own_name,
    settle,
)
from rlcore.run_folder.learner_state import COUNTERS, check_learner
from rlcore.run_folder.state import STATE, read_facts, write_facts

POLICY = "actor"
EARLIER = "earlier checkpoints are whole: rlcore resume RUN"
NOT_BEGUN = "nothing was learned yet; runner.logger.log_path=FOLDER puts the run on another disk"


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint read back.

    Attributes:
        path: its folder.
        step: policy updates done.
        policy_path: the folder to load the policy from (`actor.model.model_path`).
        state: the run's own state as it was given.
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
    """Write `folder/step_NNNNNN/`, which is then the run's latest.

    Args:
        folder: the run's `checkpoints/`.
        step: policy updates done, more than at the latest.
        save_policy: writes the policy into the folder it is given (`save_pretrained`, wherever
            the policy lives).
        save_learner: the same for what the learner needs to go on
            (:func:`rlcore.run_folder.learner_state.write_learner`).
        state: JSON values: counters, seconds, where the metrics ended.
        best: whether it is the best so far.
        keep: how many of the newest stay on the disk, at least one, besides the best; None for all.

    Raises:
        CheckpointError: it can't be written, or exists already.
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
    """What the disk refuses, as one clear error: what is written inside goes to `path`.

    Args:
        hint: what can be done; a full disk has a message of its own.

    Raises:
        CheckpointError: the disk is full, or the like.
    """
    from safetensors import SafetensorError

    try:
        yield
    except (OSError, SafetensorError) as error:
        if _no_space(error):
            hint = f"free some space; {hint}"
        raise CheckpointError(f"can't write {path}: {error}", hint=hint) from error


def _no_space(error: Exception) -> bool:
    """Whether there was no room; the tensor library keeps the number in its words only."""
    if isinstance(error, OSError):
        return error.errno in NO_SPACE
    return any(f"os error {number})" in str(error) for number in NO_SPACE)


def load_checkpoint(path: str | Path, *, verify: bool = False) -> Checkpoint:
    """Read what the driver needs of a checkpoint. The policy is loaded by its model from
    `policy_path`, the learner's state by :func:`rlcore.run_folder.learner_state.read_learner`,
    both where
    they live.

    Args:
        path: a checkpoint's folder, or a `checkpoints/` folder or run, of which the latest is
            taken.
        verify: compare files of any size with their digests; else large ones are checked by size
            and header alone, see :data:`rlcore.files.digests.READ_ALWAYS`.

    Raises:
        CheckpointError: missing, incomplete, damaged, or not written by rlcore.
    """
    found = find_checkpoint(Path(path))
    try:
        facts = _checked(found, verify=verify)
    except OtherVersionError:  # those before it are too
        raise
    except CheckpointError as error:
        hint = _earlier(found, verify=verify) or error.hint
        raise CheckpointError(error.message, hint=hint) from error
    require_own_name(found, facts["step"])
    return Checkpoint(
        path=found,
        step=facts["step"],
        policy_path=found / POLICY,
        state=facts["state"],
    )


def find_checkpoint(path: Path) -> Path:
    """The checkpoint meant by `path`: itself, or the latest of a `checkpoints/` folder or run."""
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
    inside = ", ".join(sorted(entry.name for entry in path.iterdir())[:5]) if path.is_dir() else ""
    raise CheckpointError(
        f"{path} is not a checkpoint of rlcore: it has no {STATE}"
        + (f" but {inside}" if inside else ""),
        hint="give a folder like <run>/checkpoints/step_000010, or the run's folder",
    )


def named_checkpoint(folder: Path, name: str) -> Path:
    """The checkpoint of a `checkpoints/` folder that is called so: `latest`, `best`, or a name.

    Raises:
        CheckpointError: no checkpoint has that name.
    """
    if name == LATEST:
        return find_checkpoint(folder)
    best = read_history(folder).best
    if name == BEST and best is not None:
        return folder / best
    there = checkpoint_names(folder)
    if name not in there:
        raise CheckpointError(
            f"{folder} has no checkpoint {name!r}{choosing(name, there)}",
            hint="runner.keep_best=true lets a run mark its best one" if name == BEST else None,
        )
    return folder / name


def has_checkpoint(folder: Path) -> bool:
    """Whether a `checkpoints/` folder holds one of its run."""
    return bool(checkpoint_names(folder))


def _checked(path: Path, *, verify: bool) -> dict[str, Any]:
    """The `state.json` of a checkpoint whose files are as they were written.

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
    """What to do with a checkpoint that can't be read: take the newest before it that is whole. The
    one before it may have the damaged file too: segments of a replay are hard links."""
    there = checkpoint_names(path.parent)
    before = there[: there.index(path.name)] if path.name in there else []
    for name in reversed(before):
        with suppress(CheckpointError):
            _checked(path.parent / name, verify=verify)
            which = "one before it" if name == before[-1] else "newest before it that is whole"
            return f"take the {which}: {path.parent / name}"
    damaged = "none of the checkpoints before it is whole either"
    return f"{damaged}: copy or download the run again" if before else None
