"""Several learners that act as one: same weights, shared sums. Alone, all of it does nothing.

Every rank knows the light arrays of the whole batch, so advantages, weights and the shuffle are
computed alike everywhere without another word; a rank runs the samples whose inputs it holds,
and gradients are added up. Two ranks then equal one up to the order of summation.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, replace
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor, nn

from rlcore.algo.metric import Metrics
from rlcore.rollout.trajectory import Trajectory

NO_DECISION = -1


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

    Call it with the same parameters on all ranks.
    """
    if not several():
        return
    for parameter in parameters:
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
        return _canonical(trajectory)
    light = replace(trajectory, inputs={}, replay={})
    parts: list[Trajectory] = [light] * dist.get_world_size()
    dist.all_gather_object(parts, light)
    chunks = max(part.shape[0] for part in parts)
    mine = dist.get_rank()
    padded = [_padded(part, chunks, foreign=rank != mine) for rank, part in enumerate(parts)]
    columns = {
        field.name: torch.cat([getattr(part, field.name) for part in padded], dim=1)
        for field in fields(Trajectory)
        if field.name not in ("inputs", "replay")
    }
    return _canonical(Trajectory(**columns, inputs=trajectory.inputs, replay=trajectory.replay))


def _padded(part: Trajectory, chunks: int, *, foreign: bool) -> Trajectory:
    """`part` with `chunks` rows, without decisions if they are another rank's."""
    missing = chunks - part.shape[0]
    rows = {}
    for field in fields(Trajectory):
        if field.name in ("inputs", "replay"):
            continue
        array: Tensor = getattr(part, field.name)
        fill = NO_DECISION if field.name == "sample_index" else 0
        rest = torch.full((missing, *array.shape[1:]), fill, dtype=array.dtype)
        rows[field.name] = torch.cat([array, rest])
    if foreign:
        rows["sample_index"] = torch.full_like(rows["sample_index"], NO_DECISION)
    return Trajectory(**rows, inputs={}, replay={})


def _canonical(trajectory: Trajectory) -> Trajectory:
    """Columns by (task, trial, replica) of their first episode; inputs stay where they are."""
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
    columns = {
        field.name: getattr(trajectory, field.name)[:, index]
        for field in fields(Trajectory)
        if field.name not in ("inputs", "replay")
    }
    return Trajectory(**columns, inputs=trajectory.inputs, replay=trajectory.replay)
