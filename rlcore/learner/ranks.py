"""Several learners that act as one: same weights, shared sums. Alone, all of it does nothing.

Every rank knows the light arrays of the whole batch, so advantages, weights and the shuffle are
computed alike everywhere without another word; a rank runs the samples whose inputs it holds,
and gradients are added up. Two ranks then equal one up to the order of summation.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn

from rlcore.algo.metric import Metrics
from rlcore.rollout import columns
from rlcore.trajectory import Trajectory


def join(module: nn.Module, *, url: str, rank: int, world_size: int, timeout: float) -> None:
    """Meet the other ranks at `url` (`tcp://HOST:PORT`) and take rank 0's weights.

    Args:
        timeout: seconds that a rank waits for the others, here and in every sum: ranks hold
            unequal shares of a minibatch, so it must cover the longest of them.
    """
    device = next(module.parameters()).device
    dist.init_process_group(
        "nccl" if device.type == "cuda" else "gloo",
        init_method=url,
        rank=rank,
        world_size=world_size,
        timeout=timedelta(seconds=timeout),
    )
    for tensor in [*module.parameters(), *module.buffers()]:
        dist.broadcast(tensor.data, src=0)


def several() -> bool:
    """Whether this process has joined others."""
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def add_gradients(parameters: Iterable[nn.Parameter]) -> None:
    """Sum gradients over ranks; a rank that had no sample contributes zeros.

    A parameter without a gradient on any rank keeps none, as on a single one: zeros would let the
    optimizer decay it. Call it with the same parameters on all ranks.
    """
    if not several():
        return
    shared = list(parameters)
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
    """The metrics of all ranks, in rank order."""
    if not several():
        return metrics
    gathered: list[Metrics] = [metrics] * dist.get_world_size()
    dist.all_gather_object(gathered, metrics)
    merged = Metrics()
    for part in gathered:
        merged.merge(part)
    return merged


def whole_batch(trajectory: Trajectory) -> Trajectory:
    """The batch of all ranks in canonical order; `sample_index` is -1 for others' decisions.

    Columns are sorted by the address of their first episode, whoever played them.
    """
    if not several():
        return columns.canonical(trajectory)
    light = replace(trajectory, inputs={}, replay={})
    parts: list[Trajectory] = [light] * dist.get_world_size()
    dist.all_gather_object(parts, light)
    chunks = max(part.shape[0] for part in parts)
    padded = [columns.pad(part, chunks) for part in parts]
    for rank, part in enumerate(padded):
        if rank != dist.get_rank():
            part.sample_index.fill_(columns.NO_DECISION)
    whole = columns.beside(padded)
    return columns.canonical(replace(whole, inputs=trajectory.inputs, replay=trajectory.replay))
