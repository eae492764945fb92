"""Shard a policy's parameters over the actor ranks (FSDP2).

    divide     keep this rank's shard of every parameter; a block is gathered while it computes
    settle     free blocks that are still gathered, so that none computes with old weights
    together   gather the full weights on the host of rank 0, to be saved

A sharded policy runs in lockstep: all ranks take part in each forward and backward. Gradients come
back summed, as those of unsharded parameters do in :mod:`rlcore.learner.collectives`.

After "PyTorch FSDP: Experiences on Scaling Fully Sharded Data Parallel" (Zhao et al. 2023) and its
second version in torch, `fully_shard`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import (
    CPUOffloadPolicy,
    FSDPModule,
    MixedPrecisionPolicy,
    OffloadPolicy,
    fully_shard,
    register_fsdp_forward_method,
)

from rlcore.config.schema import FSDPConfig
from rlcore.contracts.protocols import Policy
from rlcore.learner import dtensor

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


def shard_parameters(
    policy: Policy,
    config: FSDPConfig,
    device: torch.device,
    *,
    among: int,
    fill: Callable[[Iterable[nn.Parameter]], None] | None = None,
) -> None:
    """Shard every parameter and keep this rank's shard on `device`; for all ranks at once.

    Block by block, so that a device never holds more than its parts and one whole block. A policy
    without blocks is gathered as a whole, and so is what blocks share with each other or with the
    rest. A few parameters stay whole on every rank: single numbers, within a block those of another
    dtype than most of what is trained there, as a block's gradients are summed in one piece, and
    what nobody but several blocks holds.

    Args:
        policy: on the host, equal on all ranks, which have met (:mod:`rlcore.learner.collectives`).
        config: how.
        among: how many ranks divide one copy; it divides the number of ranks.
        fill: gives parameters their numbers, a block at a time; None: they have them.
    """
    assert isinstance(policy, nn.Module)  # as every policy is
    reduce = config.mixed_precision.reduce_dtype
    shared: dict[str, Any] = {
        "mesh": _mesh(device, among),
        "mp_policy": MixedPrecisionPolicy(
            reduce_dtype=None if reduce is None else DTYPES[reduce], cast_forward_inputs=False
        ),
        "offload_policy": OffloadPolicy()
        if not config.cpu_offload
        else CPUOffloadPolicy(pin_memory=device.type == "cuda"),
    }
    blocks = list(policy.blocks()) if policy.spec.blocks else []
    tied = _in_several(policy, blocks)
    kept: set[nn.Parameter] = set()
    for block in blocks:
        if fill is not None:
            fill(block.parameters())
        kept |= _kept_whole(one for one in block.parameters() if one not in tied)
        fully_shard(
            block,
            ignored_params=kept | tied,
            reshard_after_forward=config.gathers_again,
            **shared,
        )
    if fill is not None:
        fill(one for one in policy.parameters() if not dtensor.is_sharded(one))
    kept |= _kept_whole(one for one in policy.parameters() if one not in kept)
    # what is in no block is needed again when the backward pass begins
    fully_shard(policy, ignored_params=kept, reshard_after_forward=False, **shared)
    for parameter in policy.parameters():
        if not dtensor.is_sharded(parameter):
            parameter.data = parameter.data.to(device)
    for module in policy.modules():
        if isinstance(module, FSDPModule):
            # gradients are summed here; on all backends by plain sums
            module.set_force_sum_reduction_for_comms(True)
            module.set_gradient_divide_factor(1.0)
    register_fsdp_forward_method(policy, "evaluate")
    if policy.spec.sft is not None:
        register_fsdp_forward_method(policy, "sft_loss")


def initialise_shards(policy: Policy) -> None:
    """Free blocks that are still gathered: call it when forwards are over and weights may
    change."""
    assert isinstance(policy, nn.Module)
    for module in policy.modules():
        if isinstance(module, FSDPModule):
            module.reshard()


@contextmanager
def gathered_on_rank0(policy: Policy) -> Iterator[bool]:
    """Inside, the policy of rank 0 holds its whole weights on the host, gathered one by one from
    all ranks at once; nothing can be computed with it meanwhile. What modules share they share
    there too. Gives whether this is rank 0."""
    assert isinstance(policy, nn.Module)
    first = dist.get_rank() == 0
    own = [
        (module, name, parameter)
        for module in policy.modules()
        for name, parameter in module.named_parameters(recurse=False)
    ]
    gathered: dict[nn.Parameter, nn.Parameter] = {}
    try:
        for parameter in dict.fromkeys(parameter for _, _, parameter in own):
            full = dtensor.full_tensor(parameter.detach())
            if first:
                gathered[parameter] = nn.Parameter(full.cpu(), requires_grad=False)
        for module, name, parameter in own if first else ():
            module.register_parameter(name, gathered[parameter])
        yield first
    finally:
        for module, name, parameter in own:
            module.register_parameter(name, parameter)


def _mesh(device: torch.device, among: int) -> DeviceMesh:
    """All ranks in a row; with several copies, a row for each copy."""
    size = dist.get_world_size()
    if among == size:
        return init_device_mesh(device.type, (size,))
    shape = (size // among, among)
    return init_device_mesh(device.type, shape, mesh_dim_names=("copies", "parts"))


def _in_several(policy: nn.Module, blocks: Iterable[nn.Module]) -> set[nn.Parameter]:
    """Find the parameters that several blocks share, or a block and the rest."""
    inside = {module for block in blocks for module in block.modules()}
    rest = [module for module in policy.modules() if module not in inside]
    holders = [set(block.parameters()) for block in blocks]
    holders.append({one for module in rest for one in module.parameters(recurse=False)})
    counts = Counter(one for held in holders for one in held)
    return {one for one, count in counts.items() if count > 1}


def _kept_whole(parameters: Iterable[nn.Parameter]) -> set[nn.Parameter]:
    """Find the parameters of one block, not yet sharded, that every rank keeps in full."""
    own = [one for one in parameters if not dtensor.is_sharded(one)]
    sizes: dict[torch.dtype, int] = {}
    for one in own:
        if one.requires_grad and one.dim():
            sizes[one.dtype] = sizes.get(one.dtype, 0) + one.numel()
    most = max(sizes, key=lambda dtype: sizes[dtype], default=None)
    return {one for one in own if not one.dim() or (one.requires_grad and one.dtype != most)}
