"""Checkpoints on disk: the policy, the optimizer and the counters of a run. No pickle.

    checkpoints/
      latest                    name of the newest complete checkpoint
      step_000010/
        actor/                  what the policy's `save_pretrained` wrote
        learner.safetensors     tensors of the learner: optimizer moments, reference weights
        learner.json            its counters
        state.json              the run's own state, sizes and digests of all files

A checkpoint is written under a temporary name, flushed and renamed: it is whole or not there.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlcore.errors import CheckpointError, did_you_mean
from rlcore.track.contents import DIGEST, check_digests, check_sizes, digests, sizes, text_digest
from rlcore.track.files import replacing_folder, write_text
from rlcore.track.headers import damaged, read_headers
from rlcore.track.tensors import flatten_tensors, tensor_names, unflatten_tensors

FORMAT = "rlcore-checkpoint"
FORMAT_VERSION = 2
POLICY, STATE, LATEST, BEST = "actor", "state.json", "latest", "best"
FREE_SPACE = "free some space; earlier checkpoints are whole: rlcore resume RUN"
LEARNER = "learner"  # .safetensors and .json
OWN_DIGEST = f"{DIGEST}_of_the_rest"
"""Key of `state.json`: the digest of all its other keys."""
PREFIX = "step_"


def checkpoint_name(step: int) -> str:
    """Of the folder of a checkpoint."""
    return f"{PREFIX}{step:06d}"


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
) -> Path:
    """Write `folder/step_NNNNNN/` and make it `latest`; an older one of that step is superseded.

    Args:
        folder: the run's `checkpoints/`.
        step: policy updates done.
        save_policy: writes the policy into the folder it is given (`save_pretrained`, wherever
            the policy lives).
        save_learner: the same for what the learner needs to go on (:func:`write_learner`).
        state: JSON values: counters, seconds, where the metrics ended.

    Raises:
        CheckpointError: it can't be written.
    """
    target = folder / checkpoint_name(step)
    with writing(target), replacing_folder(target) as partial:
        (partial / POLICY).mkdir()
        save_policy(partial / POLICY)
        if save_learner is not None:
            save_learner(partial)
        facts = {
            "format": FORMAT,
            "version": FORMAT_VERSION,
            "step": step,
            "state": dict(state or {}),
            "files": sizes(partial),
            DIGEST: digests(partial),
        }
        text = json.dumps({**facts, OWN_DIGEST: _own_digest(facts)}, indent=1)
        (partial / STATE).write_text(text, encoding="utf-8")
    write_text(folder / LATEST, target.name + "\n")
    return target


@contextmanager
def writing(path: Path, *, hint: str = FREE_SPACE) -> Iterator[None]:
    """What the disk refuses, as one clear error: what is written inside goes to `path`.

    Raises:
        CheckpointError: the disk is full, or the like.
    """
    from safetensors import SafetensorError

    try:
        yield
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"can't write {path}: {error}", hint=hint) from error


def load_checkpoint(path: str | Path) -> Checkpoint:
    """Read what the driver needs of a checkpoint. The policy is loaded by its model from
    `policy_path`, the learner's state by :func:`read_learner`, both where they live.

    Args:
        path: a checkpoint's folder, or a `checkpoints/` folder or run, of which the latest is
            taken.

    Raises:
        CheckpointError: missing, incomplete, damaged, or not one of ours.
    """
    found = find_checkpoint(Path(path))
    try:
        facts = _read_facts(found / STATE)
        check_sizes(found, facts["files"])
        if f"{LEARNER}.safetensors" in facts["files"]:
            _check_learner(found)
        check_digests(found, facts[DIGEST])
    except CheckpointError as error:
        raise CheckpointError(error.message, hint=_earlier(found) or error.hint) from error
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
        if (folder / LATEST).exists():
            return _pointed_to(folder / LATEST)
        if has_checkpoint(folder):  # the run was killed before it could name its first one
            return folder / _whole(folder)[-1]
    if not path.exists():
        raise CheckpointError(f"there is no checkpoint at {path}")
    if (path / "config.yaml").is_file():
        raise CheckpointError(
            f"the run {path} has no checkpoint: no {path / 'checkpoints' / LATEST}"
        )
    inside = ", ".join(sorted(entry.name for entry in path.iterdir())[:5]) if path.is_dir() else ""
    raise CheckpointError(
        f"{path} is not a checkpoint of rlcore: it has neither {STATE} nor {LATEST}"
        + (f" but {inside}" if inside else ""),
        hint="give a folder like <run>/checkpoints/step_000010, or the run's folder",
    )


def named_checkpoint(folder: Path, name: str) -> Path:
    """The checkpoint of a `checkpoints/` folder that is called so: `latest`, `best`, or a name.

    Raises:
        CheckpointError: there is none of that name.
    """
    if name == LATEST:
        return find_checkpoint(folder)
    if name == BEST and (folder / BEST).exists():
        return _pointed_to(folder / BEST)
    there = _whole(folder)
    if name not in there:
        raise CheckpointError(
            f"{folder} has no checkpoint {name!r}: it has {', '.join(there) or 'none'}."
            f"{did_you_mean(name, there)}",
            hint="runner.keep_best=true lets a run mark its best one" if name == BEST else None,
        )
    return folder / name


def has_checkpoint(folder: Path) -> bool:
    """Whether there is one in a `checkpoints/` folder, or something that names one."""
    return (folder / LATEST).exists() or bool(_whole(folder))


def _whole(folder: Path) -> list[str]:
    """Names of the checkpoints in a folder, oldest first."""
    return sorted(entry.parent.name for entry in folder.glob(f"{PREFIX}*/{STATE}"))


def _pointed_to(pointer: Path) -> Path:
    """The checkpoint that `latest` names."""
    others = _whole(pointer.parent)
    try:
        name = pointer.read_text(encoding="utf-8").strip()
        if name in others:
            return pointer.parent / name
        problem = f"names {name[:80]!r}, which is no checkpoint beside it"
        if name.startswith(PREFIX) and (pointer.parent / name).is_dir():
            problem = f"names {name!r}, which is incomplete: {STATE} is missing"
    except OSError as error:
        problem = f"can't be read ({error.strerror or error})"
    except UnicodeDecodeError:
        problem = "is no text"
    there = f"there are {', '.join(others)}" if others else "there is none"
    raise CheckpointError(
        f"{pointer} {problem}; {there}",
        hint=f"choose one: {pointer.parent / others[-1]}" if others else None,
    )


def mark_best(folder: Path, step: int) -> None:
    """Let `best` name the checkpoint of that step, so that :func:`keep_last` spares it."""
    write_text(folder / BEST, checkpoint_name(step) + "\n")


def keep_last(folder: Path, count: int) -> list[Path]:
    """Remove all but the newest `count` checkpoints; those `latest` and `best` name always stay.

    Returns:
        The folders removed.
    """
    if count < 1:
        raise ValueError(f"at least one checkpoint must stay, got {count}")
    named = {
        (folder / pointer).read_text(encoding="utf-8").strip()
        for pointer in (LATEST, BEST)
        if (folder / pointer).is_file()
    }
    steps = sorted(folder.glob(f"{PREFIX}*"), key=lambda one: int(one.name[len(PREFIX) :]))
    removed = [one for one in steps[:-count] if one.name not in named]
    for one in removed:
        shutil.rmtree(one)
    return removed


# -- the parts of a checkpoint --------------------------------------------------------------------


def write_learner(folder: Path, tree: Any) -> None:
    """The learner's state into a checkpoint's folder: tensors and JSON values, nested.

    Raises:
        TypeError: a value that is neither a tensor nor JSON.
    """
    from safetensors.torch import save_file

    tensors, plain = flatten_tensors(tree)
    save_file(tensors, folder / f"{LEARNER}.safetensors")
    (folder / f"{LEARNER}.json").write_text(json.dumps(plain, indent=1), encoding="utf-8")


def read_learner(folder: Path) -> Any:
    """What :func:`write_learner` was given, tensors on the CPU.

    Raises:
        CheckpointError: missing or damaged.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    path = folder / f"{LEARNER}.safetensors"
    plain = _check_learner(folder)
    try:
        return unflatten_tensors(load_file(path), plain)
    except (OSError, SafetensorError) as error:
        raise damaged(path, str(error)) from error


def _check_learner(folder: Path) -> Any:
    """The learner's JSON, once it is known to name the tensors that are there. Only headers are
    read."""
    path = folder / f"{LEARNER}.safetensors"
    plain = _read_json(path.with_suffix(".json"))
    try:
        named = tensor_names(plain)
    except (TypeError, ValueError, AttributeError) as error:
        raise damaged(path.with_suffix(".json"), str(error)) from error
    stored = set(read_headers(path))
    if named != stored:
        name = min(named ^ stored)
        problem = "lacks" if name in named else "holds besides"
        raise CheckpointError(
            f"{path} {problem} the tensor {name!r}: it is not of {path.stem}.json"
        )
    return plain


def _earlier(path: Path) -> str | None:
    """What to do with a checkpoint that can't be read: the one before it may be whole."""
    before = [name for name in _whole(path.parent) if name < path.name]
    return f"take the one before it: {path.parent / before[-1]}" if before else None


def _read_facts(path: Path) -> dict[str, Any]:
    facts = _read_json(path)
    if not isinstance(facts, dict) or facts.get("format") != FORMAT:
        raise CheckpointError(f"{path.parent} is not a checkpoint of rlcore: {path} is another's")
    if facts.get("version") != FORMAT_VERSION:
        raise CheckpointError(
            f"{path.parent} has checkpoint format {facts.get('version')}, "
            f"this rlcore reads {FORMAT_VERSION}"
        )
    if OWN_DIGEST not in facts:
        facts.setdefault(DIGEST, {})  # earlier versions wrote neither
    for name, kind, words in (
        ("step", int, "a whole number"),
        ("state", dict, "a mapping"),
        ("files", dict, "a mapping"),
        (DIGEST, dict, "a mapping"),
    ):
        if type(facts.get(name)) is not kind:
            raise damaged(path, f"{name} must be {words}, got {facts.get(name)!r}")
    written = facts.pop(OWN_DIGEST, None)  # earlier versions wrote none
    if written is not None and written != _own_digest(facts):
        raise damaged(path, f"its {DIGEST} is not the one it was written with")
    return facts


def _own_digest(facts: Mapping[str, Any]) -> str:
    return text_digest(json.dumps(facts, sort_keys=True))


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise damaged(path, str(error)) from error
