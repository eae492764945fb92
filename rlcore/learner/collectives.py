"""Train on several ranks with data parallelism. On a single rank, collectives do nothing.

Every rank has the light arrays of the whole batch, so each computes advantages, weights and the
shuffle without communication. A rank runs the samples whose inputs it holds, and gradients are
summed over ranks. The result differs from that of a single rank only by the order of summation.
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
from rlcore.learner import dtensor
from rlcore.rollout import columns

T = TypeVar("T")


def join_process_group(
    device: torch.device, *, url: str, rank: int, world_size: int, timeout: float
) -> None:
    """Join the process group of all ranks.

    Args:
        device: device on which the ranks compute. On cuda, NCCL exchanges its tensors, and gloo
            those on the host: counts, metrics and offloaded shards.
        url: rendezvous, `tcp://HOST:PORT`.
        rank: rank of this process, from 0.
        world_size: number of ranks.
        timeout: seconds that a rank waits at the rendezvous and in every collective. Ranks have
            unequal shares of a minibatch, so it must cover the time that the longest share takes.
    """
    dist.init_process_group(
        "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo",
        init_method=url,
        rank=rank,
        world_size=world_size,
        timeout=timedelta(seconds=timeout),
    )


def is_distributed() -> bool:
    """Check whether this process is in a group of two or more ranks."""
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def rank() -> int:
    """Return the rank of this process; 0 without a process group."""
    return dist.get_rank() if is_distributed() else 0


def world_size() -> int:
    """Return the number of ranks; 1 without a process group."""
    return dist.get_world_size() if is_distributed() else 1


def all_gather(value: T) -> list[T]:
    """Return the values of all ranks, in rank order; they are pickled in between."""
    values = [value] * world_size()
    if is_distributed():
        dist.all_gather_object(values, value)
    return values


def all_sum(number: float) -> float:
    """Return the sum over all ranks, the same on every rank."""
    return sum(all_gather(number))


def all_max(count: int) -> int:
    """Return the maximum over all ranks, the same on every rank."""
    return max(all_gather(count))


def add_gradients(parameters: Iterable[nn.Parameter]) -> None:
    """Sum gradients over ranks, in place. A rank without a gradient contributes zeros.

    Sharded parameters are skipped, because FSDP has summed their gradients. If no rank has a
    gradient for a parameter, its gradient remains None: with zeros, weight decay would change it.

    Args:
        parameters: the same on all ranks, in the same order.
    """
    if not is_distributed():
        return
    replicated = [parameter for parameter in parameters if not dtensor.is_sharded(parameter)]
    if not replicated:
        return
    has_gradient = [parameter.grad is not None for parameter in replicated]
    rank_counts = torch.tensor(has_gradient, device=replicated[0].device).int()
    dist.all_reduce(rank_counts)
    for parameter, rank_count in zip(replicated, rank_counts.tolist(), strict=True):
        if not rank_count:
            continue
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        dist.all_reduce(parameter.grad)


def merge_metrics(metrics: Metrics) -> Metrics:
    """Return the metrics of all ranks merged in rank order, the same on every rank."""
    merged = Metrics()
    for rank_metrics in all_gather(metrics):
        merged.merge(rank_metrics)
    return merged


def whole_batch(trajectory: Trajectory | None) -> Trajectory:
    """Return the batch of all ranks in canonical order, for all ranks at once.

    Light arrays cover all ranks. Inputs and replay are those of this rank, and `sample_index` is -1
    for the decisions of other ranks. If any rank has a decision, every rank receives at least one
    row of inputs, to run forwards with. Columns are sorted by the address of their first episode,
    so the order does not depend on which rank received them.

    Args:
        trajectory: trajectory that this rank received, or None. At least one rank has one.
    """
    if not is_distributed():
        assert trajectory is not None
        return columns.canonical(trajectory)
    light = None if trajectory is None else replace(trajectory, inputs={}, replay={})
    gathered = all_gather(light)
    empty = columns.take(next(part for part in gathered if part is not None), [])
    trajectory = _lend_row(empty if trajectory is None else trajectory)
    parts = [empty if part is None else part for part in gathered]
    chunks = max(part.shape[0] for part in parts)
    padded = [columns.pad(part, chunks) for part in parts]
    for part_rank, part in enumerate(padded):
        if part_rank != dist.get_rank():
            part.sample_index.fill_(columns.NO_DECISION)
    whole = columns.concatenate(padded)
    return columns.canonical(replace(whole, inputs=trajectory.inputs, replay=trajectory.replay))


def _lend_row(trajectory: Trajectory) -> Trajectory:
    """Copy one row of inputs and replay to the ranks without rows.

    A rank without decisions must still take part in the forwards of the others. No `sample_index`
    refers to the copied row, so it is in no sample.
    """
    has_rows = any(len(rows) for rows in trajectory.inputs.values())
    ranks_with_rows = all_gather(has_rows)
    if all(ranks_with_rows) or not any(ranks_with_rows):
        return trajectory
    lender = ranks_with_rows.index(True)
    lent: list[Any] = [None, None]
    if lender == dist.get_rank():
        lent = [
            {name: rows[:1].clone() for name, rows in kind.items()}
            for kind in (trajectory.inputs, trajectory.replay)
        ]
    dist.broadcast_object_list(lent, src=lender)
    inputs, replay = lent
    return trajectory if has_rows else replace(trajectory, inputs=inputs, replay=replay)
