"""Write and read the learner's state: `learner.safetensors` and `learner.json`. No pickle.

Tensors are stored under their own names. The JSON file has the learner's counters, and lists the
names, so a file of tensors that belongs to another checkpoint is noticed.

Where actor ranks shard the parameters, each writes its rows of every tensor into a file of its
own, `learner-00001-of-00004.safetensors`. Rows continue from one file to the next, so any number of
ranks can read their own rows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlcore.contracts.errors import CheckpointError
from rlcore.files.damaged_files import blaming, damaged, read_mapping
from rlcore.files.safetensors_header import read_headers

if TYPE_CHECKING:
    from torch import Tensor

TENSORS, COUNTERS = "learner.safetensors", "learner.json"
REFERENCE = "reference."
"""How the names of tensors begin that hold the reference weights."""
MASTER = "master"
"""How the names of tensors end, behind a dot, that are the fp32 copies of parameters."""


def write_learner(folder: Path, saved: Mapping[str, Any], *, part: int = 0, parts: int = 1) -> None:
    """Write the learner's state, or a shard of it, into a checkpoint's folder.

    Args:
        saved: `{"tensors": {name: tensor}, "state": JSON values}`; the first part has all names.
        part, parts: which of how many.

    Raises:
        TypeError: a value of the state that is not JSON.
    """
    from safetensors.torch import save_file

    if part == 0:
        names = sorted(saved["tensors"])
        facts = {"state": saved["state"], "tensors": names, "files": _files(parts)}
        (folder / COUNTERS).write_text(json.dumps(facts, indent=1), encoding="utf-8")
    tensors = {name: one.detach().cpu().contiguous() for name, one in saved["tensors"].items()}
    save_file(tensors, folder / _files(parts)[part])


def read_learner(folder: Path) -> dict[str, Any]:
    """What :func:`write_learner` was given in all its parts. Tensors are mapped into memory from
    their file; one of several files is given as :class:`Rows`: who wants a few rows reads no more.

    Raises:
        CheckpointError: missing or damaged.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    state, files, _ = check_learner(folder)
    tensors = []
    for file in files:
        with blaming(folder / file, SafetensorError):
            tensors.append(load_file(folder / file))
    pieces = {name: [held[name] for held in tensors if name in held] for name in tensors[0]}
    joined = {name: own[0] if len(own) == 1 else Rows(own) for name, own in pieces.items()}
    return {"tensors": joined, "state": state}


class Rows:
    """A tensor whose rows lie in several files. `rows[a:b]` reads those and joins them.

    Attributes:
        shape: of the whole.
    """

    def __init__(self, pieces: Sequence[Tensor]) -> None:
        self._pieces = pieces
        self.shape = (sum(map(len, pieces)), *pieces[0].shape[1:])

    def __getitem__(self, rows: slice) -> Tensor:
        import torch

        first, stop, _ = rows.indices(self.shape[0])
        found, at = [], 0
        for piece in self._pieces:
            found.append(piece[max(first - at, 0) : max(stop - at, 0)])
            at += len(piece)
        there = [piece for piece in found if len(piece)]
        return torch.cat(there) if len(there) > 1 else (there or found)[0]


def check_learner(folder: Path) -> tuple[dict[str, Any], list[str], set[str]]:
    """(counters, files of tensors, names of tensors) of the learner. Of the tensors only the
    headers are read.

    Raises:
        CheckpointError: a file is missing or damaged, or they don't belong together.
    """
    facts = read_mapping(folder / COUNTERS)
    with blaming(folder / COUNTERS):
        state, names, files = facts["state"], set(facts["tensors"]), facts["files"]
    if not isinstance(state, dict):
        raise damaged(folder / COUNTERS, f"state can't be {state!r}")
    if not (isinstance(files, list) and files and files == _files(len(files))):
        raise damaged(folder / COUNTERS, f"files can't be {files!r:.200}")
    stored = {name: file for file in reversed(files) for name in read_headers(folder / file)}
    if names != set(stored):
        name = min(names ^ set(stored))
        path = folder / (stored[name] if name in stored else files[0])
        problem = "lacks" if name in names else "holds besides"
        raise CheckpointError(f"{path} {problem} the tensor {name!r}: it is not of {COUNTERS}")
    return state, files, names


def _files(parts: int) -> list[str]:
    if parts == 1:
        return [TENSORS]
    stem, _, kind = TENSORS.partition(".")
    return [f"{stem}-{part:05d}-of-{parts:05d}.{kind}" for part in range(1, parts + 1)]
