"""Write and read the learner's state: `learner.safetensors` and `learner.json`. No pickle.

Tensors are stored under their own names. The JSON file has the learner's counters and the names of
all tensors, so that a tensor file of another checkpoint is detected if its names differ.

If the parameters are sharded, each actor rank writes its rows of every tensor to a separate file,
`learner-00001-of-00004.safetensors`. Concatenated in the order of the files, the rows are the whole
tensor, so a different number of ranks can each read their own rows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlcore.contracts.errors import CheckpointError
from rlcore.files.damaged_files import damaged_error, damaged_on, read_mapping
from rlcore.files.safetensors_header import read_headers

if TYPE_CHECKING:
    from torch import Tensor

TENSORS = "learner.safetensors"
COUNTERS = "learner.json"
REFERENCE = "reference."
"""Prefix of the names of tensors with reference weights."""
AVERAGE = "average."
"""Prefix of the names of tensors with the moving average of the policy's weights."""
TRAINED = "trained."
"""Prefix of the names of tensors with the weights that such an average follows."""
MASTER = "master"
"""Last part, after a dot, of the names of tensors with fp32 copies of bf16 parameters."""


def write_learner(folder: Path, saved: Mapping[str, Any], *, part: int = 0, parts: int = 1) -> None:
    """Write the learner's state, or a shard of it, into a checkpoint's folder.

    Args:
        folder: the checkpoint's folder.
        saved: `{"tensors": {name: tensor}, "state": JSON values}`. Part 0 must have all tensor
            names; only its state is written.
        part, parts: index of this shard, from 0, and the number of shards.

    Raises:
        TypeError: a value of the state can't be written as JSON.
    """
    from safetensors.torch import save_file

    if part == 0:
        names = sorted(saved["tensors"])
        facts = {"state": saved["state"], "tensors": names, "files": _files(parts)}
        (folder / COUNTERS).write_text(json.dumps(facts, indent=1), encoding="utf-8")
    tensors = {
        name: tensor.detach().cpu().contiguous() for name, tensor in saved["tensors"].items()
    }
    save_file(tensors, folder / _files(parts)[part])


def read_learner(folder: Path) -> dict[str, Any]:
    """Read what :func:`write_learner` wrote, with all shards joined.

    Tensors are memory-mapped from their file. A tensor with rows in several files is returned as
    :class:`Rows`, whose rows are read lazily.

    Returns:
        `{"tensors": {name: tensor or Rows}, "state": JSON values}`.

    Raises:
        CheckpointError: a file is missing or damaged.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    state, files, _ = check_learner(folder)
    tensors = []
    for file in files:
        with damaged_on(folder / file, SafetensorError):
            tensors.append(load_file(folder / file))
    joined: dict[str, Any] = {}
    for name in tensors[0]:
        pieces = [shard[name] for shard in tensors if name in shard]
        joined[name] = pieces[0] if len(pieces) == 1 else Rows(pieces)
    return {"tensors": joined, "state": state}


class Rows:
    """A tensor whose rows are in several files. `rows[a:b]` reads rows a to b as one tensor.

    Attributes:
        shape: shape of the whole tensor.
    """

    def __init__(self, pieces: Sequence[Tensor]) -> None:
        self._pieces = pieces
        self.shape = (sum(map(len, pieces)), *pieces[0].shape[1:])

    def __getitem__(self, rows: slice) -> Tensor:
        import torch

        first, stop, _ = rows.indices(self.shape[0])
        parts = []
        start = 0
        for piece in self._pieces:
            parts.append(piece[max(first - start, 0) : max(stop - start, 0)])
            start += len(piece)
        filled = [part for part in parts if len(part)]
        # a single part is not copied, so that it stays memory-mapped
        return torch.cat(filled) if len(filled) > 1 else (filled or parts)[0]


def check_learner(folder: Path) -> tuple[dict[str, Any], list[str], set[str]]:
    """Check that the learner's files are complete and belong together.

    Only the headers of the tensor files are read.

    Returns:
        The learner's counters, the names of its tensor files, and the names of its tensors.

    Raises:
        CheckpointError: a file is missing or damaged, or the files do not belong together.
    """
    facts = read_mapping(folder / COUNTERS)
    with damaged_on(folder / COUNTERS):
        state = facts["state"]
        names = set(facts["tensors"])
        files = facts["files"]
    if not isinstance(state, dict):
        raise damaged_error(folder / COUNTERS, f"state can't be {state!r}")
    if not (isinstance(files, list) and files and files == _files(len(files))):
        raise damaged_error(folder / COUNTERS, f"files can't be {files!r:.200}")
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
