"""Join several learners into one: same weights, shared sums. With a single learner, do nothing.

Every rank knows the light arrays of the whole batch, so advantages, weights and the shuffle are
computed on every rank without communication; a rank runs the samples whose inputs it holds, and
gradients are summed. Two ranks then equal one up to the order of summation.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import nn

from rlcore.contracts.metric import Metrics
from rlcore.contracts.trajectory import Trajectory
from rlcore.learner import dtensor as parts
from rlcore.rollout import columns

T = TypeVar("T")


def join_process_group(
    device: torch.device, *, url: str, rank: int, world_size: int, timeout: float
) -> None:
    """Meet the other ranks at `url` (`tcp://HOST:PORT`).

    Args:
        device: where they compute. What lies on the host is exchanged there all the same: counts,
            metrics, and parts that are offloaded.
        timeout: seconds that a rank waits for the others, here and in every sum: ranks hold
            unequal shares of a minibatch, so it must cover the longest of them.
    """
    dist.init_process_group(
        "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo",
        init_method=url,
        rank=rank,
        world_size=world_size,
        timeout=timedelta(seconds=timeout),
    )


def is_distributed() -> bool:
    """Check whether this process has joined other ranks."""
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def rank() -> int:
    """Return this process's rank; 0 without others."""
    return dist.get_rank() if is_distributed() else 0


def world_size() -> int:
    """Return the number of ranks."""
    return dist.get_world_size() if is_distributed() else 1


def all_gather(value: T) -> list[T]:
    """Gather all ranks' values, in rank order."""
    values = [value] * world_size()
    if is_distributed():
        dist.all_gather_object(values, value)
    return values


def all_sum(number: float) -> float:
    """Sum all ranks' numbers; the same on all ranks."""
    return sum(all_gather(number))


def all_max(count: int) -> int:
    """Return the maximum over all ranks."""
    return max(all_gather(count))


def add_gradients(parameters: Iterable[nn.Parameter]) -> None:
    """Sum gradients over ranks; a rank without a sample contributes zeros. Those of sharded
    parameters are summed already.

    A parameter without a gradient on any rank keeps none, as on a single one: zeros would let the
    optimizer decay it. Call it with the same parameters on all ranks.
    """
    if not is_distributed():
        return
    shared = [one for one in parameters if not parts.is_sharded(one)]
    if not shared:
        return
    known = torch.tensor([p.grad is not None for p in shared], device=shared[0].device).int()
    dist.all_reduce(known)
    for parameter, ranks in zip(shared, known.tolist(), strict=True):
        if not ranks:
            continue
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        dist.all_reduce(parameter.grad)


def merge_metrics(metrics: Metrics) -> Metrics:
    """Merge the metrics of all ranks, in rank order."""
    merged = Metrics()
    for part in all_gather(metrics):
        merged.merge(part)
    return merged


def whole_batch(trajectory: Trajectory | None) -> Trajectory:
    """Gather the batch of all ranks in canonical order; `sample_index` is -1 for others' decisions.
    If any rank has a decision, every rank gets one to run a forward with.

    Columns are sorted by the address of their first episode, whoever played them.

    Args:
        trajectory: what this rank gathered; None: nothing, and one of the others did.
    """
    if not is_distributed():
        assert trajectory is not None
        return columns.canonical(trajectory)
    light = None if trajectory is None else replace(trajectory, inputs={}, replay={})
    gathered = all_gather(light)
    none = columns.take(next(part for part in gathered if part is not None), [])
    trajectory = _lend_row(none if trajectory is None else trajectory)
    parts = [none if part is None else part for part in gathered]
    chunks = max(part.shape[0] for part in parts)
    padded = [columns.pad(part, chunks) for part in parts]
    for rank, part in enumerate(padded):
        if rank != dist.get_rank():
            part.sample_index.fill_(columns.NO_DECISION)
    whole = columns.beside(padded)
    return columns.canonical(replace(whole, inputs=trajectory.inputs, replay=trajectory.replay))


def _lend_row(trajectory: Trajectory) -> Trajectory:
    """Give a rank without decisions one of another rank's, in no sample: it must take part in the
    forwards of the others."""
    held = any(len(rows) for rows in trajectory.inputs.values())
    holds = all_gather(held)
    if all(holds) or not any(holds):
        return trajectory
    lender = holds.index(True)
    lent: list[Any] = [None, None]
    if lender == dist.get_rank():
        lent = [
            {name: rows[:1].clone() for name, rows in kind.items()}
            for kind in (trajectory.inputs, trajectory.replay)
        ]
    dist.broadcast_object_list(lent, src=lender)
    inputs, replay = lent
    return trajectory if held else replace(trajectory, inputs=inputs, replay=replay)
