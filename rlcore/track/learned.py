"""What the learner keeps in a checkpoint: `learner.safetensors` and `learner.json`. No pickle.

Tensors are stored under their own names. The JSON file has the learner's counters, and lists the
names, so a file of tensors that belongs to another checkpoint is noticed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlcore.errors import CheckpointError
from rlcore.track.damage import blaming, damaged, read_mapping
from rlcore.track.headers import read_headers

TENSORS, COUNTERS = "learner.safetensors", "learner.json"
REFERENCE = "reference."
"""How the names of tensors begin that hold the reference weights."""
MASTER = "master"
"""How the names of tensors end, behind a dot, that are the fp32 copies of parameters."""


def write_learner(folder: Path, saved: Mapping[str, Any]) -> None:
    """The learner's state into a checkpoint's folder.

    Args:
        saved: `{"tensors": {name: tensor}, "state": JSON values}`.

    Raises:
        TypeError: a value of the state that is not JSON.
    """
    from safetensors.torch import save_file

    facts = {"state": saved["state"], "tensors": sorted(saved["tensors"])}
    (folder / COUNTERS).write_text(json.dumps(facts, indent=1), encoding="utf-8")
    tensors = {name: one.detach().cpu().contiguous() for name, one in saved["tensors"].items()}
    save_file(tensors, folder / TENSORS)


def read_learner(folder: Path) -> dict[str, Any]:
    """What :func:`write_learner` was given, tensors on the CPU.

    Raises:
        CheckpointError: missing or damaged.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    state = check_learner(folder)
    with blaming(folder / TENSORS, SafetensorError):
        return {"tensors": load_file(folder / TENSORS), "state": state}


def check_learner(folder: Path) -> dict[str, Any]:
    """The learner's counters. Of the tensors only the header is read.

    Raises:
        CheckpointError: a file is missing or damaged, or they don't belong together.
    """
    path = folder / TENSORS
    facts = read_mapping(folder / COUNTERS)
    with blaming(folder / COUNTERS):
        state, names = facts["state"], set(facts["tensors"])
    if not isinstance(state, dict):
        raise damaged(folder / COUNTERS, f"state can't be {state!r}")
    stored = set(read_headers(path))
    if names != stored:
        name = min(names ^ stored)
        problem = "lacks" if name in names else "holds besides"
        raise CheckpointError(f"{path} {problem} the tensor {name!r}: it is not of {COUNTERS}")
    return state
