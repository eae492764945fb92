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


def is_sharded(tensor: Tensor) -> bool:
    """Check whether a tensor is sharded over ranks."""
    # takes half a second to import: where nobody has done so, nothing is sharded
    known = sys.modules.get(_DTENSOR)
    return known is not None and isinstance(tensor, known.DTensor)


def local_shard(tensor: Any) -> Tensor:
    """Return the local shard, over the same memory; all of an unsharded tensor."""
    return tensor.to_local() if is_sharded(tensor) else tensor


def full_tensor(tensor: Any) -> Tensor:
    """Gather all rows from all ranks at once; return an unsharded tensor as it is."""
    return tensor.full_tensor() if is_sharded(tensor) else tensor


def first_row(tensor: Any) -> int:
    """Return the index of the first row in the local shard."""
    if not is_sharded(tensor):
        return 0
    mesh = tensor.device_mesh
    each = -(-len(tensor) // mesh.size(mesh.ndim - 1))
    return min(each * mesh.get_local_rank(mesh.ndim - 1), len(tensor))


def rows_for(saved: Any, parameter: Tensor) -> Tensor:
    """Return the rows for the local shard, from a parameter's saved tensor or
    :class:`rlcore.run_folder.learner_state.Rows`."""
    if not is_sharded(parameter):
        return saved[:] if parameter.dim() else saved
    first = first_row(parameter)
    return saved[first : first + len(local_shard(parameter))]


def row_count(parameters: Iterable[Any]) -> tuple[int, int] | None:
    """Return which shard this rank saves, and of how many; None where another rank with the same
    shard saves it."""
    for parameter in parameters:
        if is_sharded(parameter):
            mesh = parameter.device_mesh
            if mesh.ndim > 1 and mesh.get_local_rank(0) > 0:
                return None
            return mesh.get_local_rank(mesh.ndim - 1), mesh.size(mesh.ndim - 1)
    return (0, 1) if _first() else None


def is_saved_here(parameter: Tensor, held: Tensor) -> bool:
    """Check whether this rank saves this tensor: its shard if it is sharded, else only on rank
    0."""
    if is_sharded(parameter) and held.dim():
        return len(held) > 0
    return _first()


def _first() -> bool:
    return not (dist.is_available() and dist.is_initialized()) or dist.get_rank() == 0


def total_norm(gradients: Iterable[tuple[Tensor, Tensor]]) -> Tensor:
    """2-norm of whole gradients, for all ranks at once.

    Args:
        gradients: (parameter, gradient of the part of it that is held here); those of unsharded
            parameters are the same on all ranks.
    """
    alone, shared, group = [], [], None
    for parameter, gradient in gradients:
        if is_sharded(parameter):
            shared.append(gradient)
            mesh: Any = parameter.device_mesh  # type: ignore[attr-defined]  # a sharded one has it
            group = mesh.get_group(mesh.ndim - 1)
        else:
            alone.append(gradient)
    norm = torch.nn.utils.get_total_norm(alone)
    if group is None:
        return norm
    squares = torch.nn.utils.get_total_norm(shared).square()
    dist.all_reduce(squares, group=group)
    return (norm.to(squares.device).square() + squares).sqrt()
