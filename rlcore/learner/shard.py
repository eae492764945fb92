"""Shard a policy's parameters over the actor ranks (FSDP2).

    shard_parameters     keep this rank's shard of each parameter; a block is gathered to compute
    reshard_blocks       free blocks that are still gathered, so that none computes with old weights
    gathered_on_rank0    gather the full weights on the host of rank 0, for saving

A sharded policy runs in lockstep: all ranks take part in each forward and backward. FSDP sums
gradients over ranks, as :mod:`rlcore.learner.collectives` does for unsharded parameters.

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
    """Shard the parameters and keep this rank's shards on `device`, for all ranks at once.

    Sharding goes block by block, so that a device never holds more than its shards and one full
    block. A policy without blocks is gathered as a whole, as are the parameters outside blocks.

    Every rank keeps full copies of a few parameters: scalars; parameters whose dtype differs from
    that of most trained entries of their block, because a block's gradients are reduced in a single
    buffer; and parameters that only several blocks share.

    Args:
        policy: policy on the host, the same on all ranks. The ranks have joined their process group
            (:func:`rlcore.learner.collectives.join_process_group`).
        config: reduction dtype, CPU offload and when blocks are gathered again.
        among: number of ranks that hold one copy of the policy; it divides the world size.
        fill: computes the values of parameters, called for each block before it is sharded; None if
            they have values.
    """
    assert isinstance(policy, nn.Module)  # every policy is one, which its protocol can't say
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
    blocks = list(policy.blocks()) if policy.spec.has_blocks else []
    tied = _tied(policy, blocks)
    replicated: set[nn.Parameter] = set()
    for block in blocks:
        if fill is not None:
            fill(block.parameters())
        replicated |= _unsharded(
            parameter for parameter in block.parameters() if parameter not in tied
        )
        fully_shard(
            block,
            ignored_params=replicated | tied,
            reshard_after_forward=config.reshards,
            **shared,
        )
    if fill is not None:
        fill(parameter for parameter in policy.parameters() if not dtensor.is_sharded(parameter))
    replicated |= _unsharded(
        parameter for parameter in policy.parameters() if parameter not in replicated
    )
    # the backward pass begins with parameters outside blocks, so they are not resharded before it
    fully_shard(policy, ignored_params=replicated, reshard_after_forward=False, **shared)
    for parameter in policy.parameters():
        if not dtensor.is_sharded(parameter):
            parameter.data = parameter.data.to(device)
    for module in policy.modules():
        if isinstance(module, FSDPModule):
            # sum gradients instead of averaging them, by a plain sum on every backend
            module.set_force_sum_reduction_for_comms(True)
            module.set_gradient_divide_factor(1.0)
    register_fsdp_forward_method(policy, "evaluate")
    if policy.spec.sft_objective is not None:
        register_fsdp_forward_method(policy, "sft_loss")


def reshard_blocks(policy: Policy) -> None:
    """Free blocks that are still gathered. Call it after the forwards, before weights change."""
    assert isinstance(policy, nn.Module)
    for module in policy.modules():
        if isinstance(module, FSDPModule):
            module.reshard()


@contextmanager
def gathered_on_rank0(policy: Policy) -> Iterator[bool]:
    """Give the policy of rank 0 its full weights on the host, for all ranks at once.

    The weights are gathered parameter by parameter, and tied weights remain tied. The policy can't
    compute inside this context.

    Yields:
        Whether this is rank 0.
    """
    assert isinstance(policy, nn.Module)
    is_rank0 = dist.get_rank() == 0
    own = [
        (module, name, parameter)
        for module in policy.modules()
        for name, parameter in module.named_parameters(recurse=False)
    ]
    gathered: dict[nn.Parameter, nn.Parameter] = {}
    try:
        for parameter in dict.fromkeys(parameter for _, _, parameter in own):
            full = dtensor.full_tensor(parameter.detach())
            if is_rank0:
                gathered[parameter] = nn.Parameter(full.cpu(), requires_grad=False)
        for module, name, parameter in own if is_rank0 else ():
            module.register_parameter(name, gathered[parameter])
        yield is_rank0
    finally:
        for module, name, parameter in own:
            module.register_parameter(name, parameter)


def _mesh(device: torch.device, among: int) -> DeviceMesh:
    """Return a mesh of all ranks `[ranks]`; with several copies of the policy `[copies, ranks of a
    copy]`."""
    size = dist.get_world_size()
    if among == size:
        return init_device_mesh(device.type, (size,))
    shape = (size // among, among)
    return init_device_mesh(device.type, shape, mesh_dim_names=("copies", "parts"))


def _tied(policy: nn.Module, blocks: Iterable[nn.Module]) -> set[nn.Parameter]:
    """Return the parameters that several blocks share, or a block and the rest of the policy."""
    inside = {module for block in blocks for module in block.modules()}
    rest = [module for module in policy.modules() if module not in inside]
    holders = [set(block.parameters()) for block in blocks]
    holders.append({p for module in rest for p in module.parameters(recurse=False)})
    counts = Counter(parameter for parameters in holders for parameter in parameters)
    return {parameter for parameter, count in counts.items() if count > 1}


def _unsharded(parameters: Iterable[nn.Parameter]) -> set[nn.Parameter]:
    """Return the parameters of a block that can't be sharded with it: scalars, and trained ones of
    a dtype other than the most common. Parameters that are already sharded are ignored."""
    candidates = [parameter for parameter in parameters if not dtensor.is_sharded(parameter)]
    sizes: dict[torch.dtype, int] = {}
    for parameter in candidates:
        if parameter.requires_grad and parameter.dim():
            dtype = parameter.dtype
            sizes[dtype] = sizes.get(dtype, 0) + parameter.numel()
    block_dtype = max(sizes, key=lambda dtype: sizes[dtype], default=None)
    return {
        parameter
        for parameter in candidates
        if not parameter.dim() or (parameter.requires_grad and parameter.dtype != block_dtype)
    }
