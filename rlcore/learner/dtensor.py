"""Read and gather the local shards of parameters that are sharded over ranks.

A parameter of R rows is sharded along its first dimension: of n ranks, rank r holds ceil(R / n)
rows from row r ceil(R / n) on, and the last ranks may hold fewer or none. Functions marked "for all
ranks at once" are collective: every rank must call them, in the same order. Knows no policy.
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
    # the import takes half a second, and without it no tensor can be sharded
    module = sys.modules.get(_DTENSOR)
    return module is not None and isinstance(tensor, module.DTensor)


def local_shard(tensor: Any) -> Tensor:
    """Return the local shard, over the same memory, or an unsharded tensor itself."""
    return tensor.to_local() if is_sharded(tensor) else tensor


def full_tensor(tensor: Any) -> Tensor:
    """Return all rows, for all ranks at once, or an unsharded tensor itself."""
    return tensor.full_tensor() if is_sharded(tensor) else tensor


def first_row(tensor: Any) -> int:
    """Return the index of the local shard's first row in the whole tensor."""
    if not is_sharded(tensor):
        return 0
    mesh = tensor.device_mesh
    rows_per_rank = -(-len(tensor) // mesh.size(mesh.ndim - 1))  # rounded up
    return min(rows_per_rank * mesh.get_local_rank(mesh.ndim - 1), len(tensor))


def rows_for(saved: Any, parameter: Tensor) -> Tensor:
    """Return the rows of the local shard, from a parameter's saved whole tensor or its
    :class:`rlcore.runs.learner_state.Rows`, which are read lazily."""
    if not is_sharded(parameter):
        return saved[:] if parameter.dim() else saved
    first = first_row(parameter)
    return saved[first : first + len(local_shard(parameter))]


def row_count(parameters: Iterable[Any]) -> tuple[int, int] | None:
    """Return (index, count) of the shard that this rank saves, or None if another rank with the
    same shard saves it. Without sharded parameters, rank 0 saves everything: (0, 1)."""
    for parameter in parameters:
        if is_sharded(parameter):
            mesh = parameter.device_mesh
            if mesh.ndim > 1 and mesh.get_local_rank(0) > 0:
                return None
            return mesh.get_local_rank(mesh.ndim - 1), mesh.size(mesh.ndim - 1)
    return (0, 1) if _is_rank0() else None


def is_saved_here(parameter: Tensor, held: Tensor) -> bool:
    """Check whether this rank saves a tensor.

    Every rank saves its shards that have rows; rank 0 also saves unsharded tensors.

    Args:
        parameter: the parameter that the tensor belongs to.
        held: the local tensor, such as the parameter's shard or one of its moments.
    """
    if is_sharded(parameter) and held.dim():
        return len(held) > 0
    return _is_rank0()


def _is_rank0() -> bool:
    return not (dist.is_available() and dist.is_initialized()) or dist.get_rank() == 0


def total_norm(gradients: Iterable[tuple[Tensor, Tensor]]) -> Tensor:
    """Return the global 2-norm of gradients, for all ranks at once.

    Args:
        gradients: pairs of a parameter and the gradient of its local shard. Gradients of unsharded
            parameters must be the same on all ranks.
    """
    replicated = []
    sharded = []
    group = None
    for parameter, gradient in gradients:
        if is_sharded(parameter):
            sharded.append(gradient)
            mesh: Any = parameter.device_mesh  # type: ignore[attr-defined]  # DTensor has it
            group = mesh.get_group(mesh.ndim - 1)
        else:
            replicated.append(gradient)
    norm = torch.nn.utils.get_total_norm(replicated)
    if group is None:
        return norm
    squares = torch.nn.utils.get_total_norm(sharded).square()
    dist.all_reduce(squares, group=group)
    return (norm.to(squares.device).square() + squares).sqrt()
