"""Read and gather the local shards of parameters that are sharded over ranks.

A sharded parameter is cut along its first dimension: rank r of n holds the rows from r ceil(R / n)
on. Functions marked "for all ranks at once" are collective: each rank must call them, in the same
order. Knows nothing of policies.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

_DTENSOR = "torch.distributed.tensor"


def divided(tensor: Tensor) -> bool:
    """Whether other ranks hold other parts of it."""
    # takes half a second to import: where nobody has done so, nothing is divided
    known = sys.modules.get(_DTENSOR)
    return known is not None and isinstance(tensor, known.DTensor)


def part(tensor: Any) -> Tensor:
    """What is held here, over the same memory; of an undivided tensor all of it."""
    return tensor.to_local() if divided(tensor) else tensor


def whole(tensor: Any) -> Tensor:
    """All rows, gathered from all ranks at once; an undivided tensor as it is."""
    return tensor.full_tensor() if divided(tensor) else tensor


def first_row(tensor: Any) -> int:
    """The first of its rows that is held here."""
    if not divided(tensor):
        return 0
    mesh = tensor.device_mesh
    each = -(-len(tensor) // mesh.size(mesh.ndim - 1))
    return min(each * mesh.get_local_rank(mesh.ndim - 1), len(tensor))


def rows_for(saved: Any, parameter: Tensor) -> Tensor:
    """Of a tensor that goes with a parameter, or :class:`rlcore.run_folder.learner_state.Rows`:
    the rows for
    the part that is held here."""
    if not divided(parameter):
        return saved[:] if parameter.dim() else saved
    first = first_row(parameter)
    return saved[first : first + len(part(parameter))]


def share(parameters: Iterable[Any]) -> tuple[int, int] | None:
    """What this rank writes of all that ranks hold: which part of how many. None: what it holds is
    another's too, who writes it."""
    for parameter in parameters:
        if divided(parameter):
            mesh = parameter.device_mesh
            if mesh.ndim > 1 and mesh.get_local_rank(0) > 0:
                return None
            return mesh.get_local_rank(mesh.ndim - 1), mesh.size(mesh.ndim - 1)
    return (0, 1) if _first() else None


def written(parameter: Tensor, held: Tensor) -> bool:
    """Whether this rank writes what it holds of a tensor that goes with a parameter: rows, if there
    are any; what is no part of anything is the first rank's."""
    if divided(parameter) and held.dim():
        return len(held) > 0
    return _first()


def _first() -> bool:
    return not (dist.is_available() and dist.is_initialized()) or dist.get_rank() == 0


def total_norm(gradients: Iterable[tuple[Tensor, Tensor]]) -> Tensor:
    """2-norm of whole gradients, for all ranks at once.

    Args:
        gradients: (parameter, gradient of the part of it that is held here); those of undivided
            parameters are alike everywhere.
    """
    alone, shared, group = [], [], None
    for parameter, gradient in gradients:
        if divided(parameter):
            shared.append(gradient)
            mesh: Any = parameter.device_mesh  # type: ignore[attr-defined]  # a divided one has it
            group = mesh.get_group(mesh.ndim - 1)
        else:
            alone.append(gradient)
    norm = torch.nn.utils.get_total_norm(alone)
    if group is None:
        return norm
    squares = torch.nn.utils.get_total_norm(shared).square()
    dist.all_reduce(squares, group=group)
    return (norm.to(squares.device).square() + squares).sqrt()
