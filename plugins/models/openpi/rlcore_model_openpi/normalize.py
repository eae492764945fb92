"""Read and write `norm_stats.json`, openpi's file of normalisation statistics. No tensor library.

π0 normalises by mean and standard deviation, π0.5 by two bounds, the 1 % and 99 % quantiles; see
:mod:`rlcore_flow.normalize`.

The format: `{"norm_stats": {"state": {"mean", "std", "q01", "q99"}, "actions": ...}}`.
"""

from __future__ import annotations

import filecmp
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rlcore_flow.normalize import (
    COPY_OR_COMPUTE,
    FIELDS,
    Formula,
    Normalizer,
    Stats,
    checked_stats,
)

from rlcore.contracts.errors import CheckpointError
from rlcore.files.reading import read_json

FILE_NAME = "norm_stats.json"


def write_stats(path: Path, normalizer: Normalizer) -> None:
    """Write `norm_stats.json` to `path` and create its folders. Floats round-trip exactly."""
    path.parent.mkdir(parents=True, exist_ok=True)
    both = {"state": normalizer.state, "actions": normalizer.actions}
    stats = {
        name: {field: None if x is None else x.tolist() for field, x in vars(values).items()}
        for name, values in both.items()
        if values is not None
    }
    path.write_text(json.dumps({"norm_stats": stats}, indent=2) + "\n")


def read_stats(
    path: Path, state: Formula, actions: Formula, *, state_dim: int | None, action_dim: int
) -> Normalizer:
    """Read `norm_stats.json`.

    Args:
        path: the file.
        state, actions: the formulas by which states and actions are normalised.
        state_dim, action_dim: entries of the env's state and action. `state_dim=None`: the policy
            doesn't read the state, so its statistics may be missing or malformed.

    Raises:
        CheckpointError: the file is missing or not JSON, lacks a field, or holds fields of unequal
            or too small length or with negative scales.
    """
    try:
        content = read_json(path)
    except (OSError, ValueError) as error:
        raise CheckpointError(
            f"cannot read normalisation statistics {path}: {error}", hint=COPY_OR_COMPUTE
        ) from error
    stats = content.get("norm_stats") if isinstance(content, dict) else None
    if not isinstance(stats, dict):
        raise CheckpointError(f"{path} holds no 'norm_stats' mapping", hint=COPY_OR_COMPUTE)
    return Normalizer(
        state=_unread(path, "state", stats, state)
        if state_dim is None
        else _parse(path, "state", stats, state, state_dim),
        actions=_parse(path, "actions", stats, actions, action_dim),
        state_formula=state,
        action_formula=actions,
    )


def find_stats(folder: Path, asset_id: str, *, strict: bool) -> Path:
    """Return the `norm_stats.json` of a checkpoint folder.

    Looks in `assets/<asset_id>/` and `<asset_id>/`; unless `strict`, the only `norm_stats.json`
    anywhere below the folder is taken too.

    Raises:
        CheckpointError: the file is missing (the message lists existing assets), or both places
            hold files with different contents.
    """
    places = (folder / "assets" / asset_id / FILE_NAME, folder / asset_id / FILE_NAME)
    if candidates := [path for path in places if path.is_file()]:
        require_one(candidates)
        return candidates[0]
    existing = sorted(folder.rglob(FILE_NAME))
    if len(existing) == 1 and not strict:
        return existing[0]
    assets = ", ".join(str(path.parent.relative_to(folder)) for path in existing) or "none"
    raise CheckpointError(
        f"{folder} has no normalisation statistics for asset {asset_id!r} (it has: {assets})",
        hint=f"put {FILE_NAME} at {folder / 'assets' / asset_id}, "
        "or set actor.model.openpi.asset_id to a folder that exists",
    )


def require_one(paths: Sequence[Path]) -> None:
    """Check that all files have the same contents, so that it doesn't matter which one is read.

    Raises:
        CheckpointError: two files differ.
    """
    first, *others = paths
    for path in others:
        if not filecmp.cmp(first, path, shallow=False):
            raise CheckpointError(
                f"{first} and {path} have different contents",
                hint="move away the one that the model was not trained with",
            )


def _unread(path: Path, name: str, stats: dict[str, Any], formula: Formula) -> Stats | None:
    """Return statistics that the policy doesn't use, to save them again; None if malformed."""
    try:
        return _parse(path, name, stats, formula, None)
    except CheckpointError:
        return None


def _parse(
    path: Path, name: str, stats: dict[str, Any], formula: Formula, entries: int | None
) -> Stats:
    entry = stats.get(name)
    if not isinstance(entry, dict):
        raise CheckpointError(f"{path} lacks statistics of {name!r}", hint=COPY_OR_COMPUTE)
    arrays = {field: _array(path, f"{name}.{field}", entry.get(field)) for field in FIELDS}
    present = {field: array for field, array in arrays.items() if array is not None}
    return checked_stats(path, name, present, formula, entries)


def _array(path: Path, name: str, value: Any) -> np.ndarray | None:
    if value is None:
        return None
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise CheckpointError(
            f"{path}: {name} must be a list of numbers", hint=COPY_OR_COMPUTE
        ) from error
    if array.ndim != 1 or not np.isfinite(array).all():
        raise CheckpointError(
            f"{path}: {name} must be a list of finite numbers", hint=COPY_OR_COMPUTE
        )
    return array
