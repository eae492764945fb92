"""Select, join and sort columns of trajectories, without changing the arguments.

A trajectory has light arrays `[T, N, ...]`, which are cheap to copy, and heavy arrays `[M, ...]`,
the inputs and replay of its M decisions. `sample_index` maps each chunk to its row in the heavy
arrays, so it is renumbered when those rows change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace

import torch

from rlcore.contracts.trajectory import Trajectory

NO_DECISION = -1
HEAVY = ("inputs", "replay")
LIGHT = tuple(field.name for field in fields(Trajectory) if field.name not in HEAVY)


def canonical(trajectory: Trajectory) -> Trajectory:
    """Sort columns by (task, trial, replica) of their first episode; heavy arrays are unchanged."""
    address = zip(
        trajectory.task[0].tolist(),
        trajectory.trial[0].tolist(),
        trajectory.replica[0].tolist(),
        strict=True,
    )
    order = [column for _, column in sorted((key, n) for n, key in enumerate(address))]
    if order == list(range(len(order))):
        return trajectory
    index = torch.tensor(order)
    return replace(trajectory, **{name: getattr(trajectory, name)[:, index] for name in LIGHT})


def take(trajectory: Trajectory, columns: Sequence[int]) -> Trajectory:
    """Return copies of the columns at these positions, in this order, and of their decisions."""
    index = torch.tensor(list(columns), dtype=torch.int64)
    light = {name: getattr(trajectory, name)[:, index] for name in LIGHT}
    decided = light["sample_index"] != NO_DECISION
    rows = light["sample_index"][decided]
    light["sample_index"][decided] = torch.arange(len(rows))
    return Trajectory(
        **light,
        inputs={name: array[rows] for name, array in trajectory.inputs.items()},
        replay={name: array[rows] for name, array in trajectory.replay.items()},
    )


def join(parts: Sequence[Trajectory]) -> Trajectory:
    """Join the columns of all parts in canonical order, with all their decisions."""
    return canonical(append(parts))


def append(parts: Sequence[Trajectory]) -> Trajectory:
    """Join the columns of all parts, one part after another, with all their decisions.

    Parts may differ in T: shorter ones are padded with chunks without a decision.
    """
    chunks = max(part.shape[0] for part in parts)
    padded = []
    first_row = 0
    for part in parts:
        light = pad(part, chunks)
        decided = light.sample_index != NO_DECISION
        light.sample_index[decided] += first_row
        first_row += int(decided.sum())
        padded.append(light)
    return replace(
        concatenate(padded),
        inputs={n: torch.cat([part.inputs[n] for part in parts]) for n in parts[0].inputs},
        replay={n: torch.cat([part.replay[n] for part in parts]) for n in parts[0].replay},
    )


def pad(part: Trajectory, chunks: int) -> Trajectory:
    """Return copies of the light arrays of `part`, padded from T to `chunks` chunks.

    Padded chunks have no decision, and 0 in all other arrays.
    """
    rows = {}
    for name in LIGHT:
        array: torch.Tensor = getattr(part, name)
        fill = NO_DECISION if name == "sample_index" else 0
        rest = torch.full((chunks - len(array), *array.shape[1:]), fill, dtype=array.dtype)
        rows[name] = torch.cat([array, rest])
    return Trajectory(**rows, inputs={}, replay={})


def concatenate(parts: Sequence[Trajectory]) -> Trajectory:
    """Concatenate the light arrays of parts of equal T along the column axis."""
    light = {name: torch.cat([getattr(part, name) for part in parts], dim=1) for name in LIGHT}
    return Trajectory(**light, inputs={}, replay={})
