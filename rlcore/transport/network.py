"""Broadcast bytes from one process to several on other nodes, by gloo, or by NCCL between GPUs.

Each route has its own process group, separate from the one in which actor ranks sum gradients. It
is formed at the first transfer and reused, because forming it takes longer than sending small
weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed
from torch import Tensor

ROOT = 0
C10D: Any = torch.distributed  # torch exports no types of these classes


@dataclass(frozen=True)
class Address:
    """Rendezvous address of a process group."""

    host: str
    port: int


class BroadcastGroup:
    """One member of a process group in which rank 0 sends to all others.

    Args:
        store: rendezvous store of the group.
        rank: rank of this member.
        size: number of members.
        timeout: seconds to wait for the other members, in forming the group and in every transfer.
        nccl: whether to use NCCL instead of gloo; each member then needs a separate GPU.
    """

    def __init__(self, store: Any, *, rank: int, size: int, timeout: float, nccl: bool) -> None:
        limit = timedelta(seconds=timeout)
        if nccl:
            options = C10D.ProcessGroupNCCL.Options()
            options._timeout = limit
            self._group = C10D.ProcessGroupNCCL(store, rank, size, options)
        else:
            self._group = C10D.ProcessGroupGloo(store, rank, size, limit)
        self.device = torch.device("cuda" if nccl else "cpu")
        """Device that the tensors of a broadcast must be on."""

    def broadcast(self, data: Tensor) -> None:
        """Send `data`, uint8 `[n]`, from rank 0; receive it in place on the others. Blocks."""
        options = C10D.BroadcastOptions()
        options.rootRank = ROOT
        options.rootTensor = 0
        self._group.broadcast([data], options).wait()
        if data.is_cuda:
            torch.cuda.current_stream().synchronize()


def create_store(host: str, timeout: float) -> tuple[Any, Address]:
    """Create a rendezvous store on this host, which other nodes know as `host`."""
    limit = timedelta(seconds=timeout)
    store = C10D.TCPStore(host, 0, is_master=True, timeout=limit, wait_for_workers=False)
    return store, Address(host, store.port)


def connect_store(address: Address, timeout: float) -> Any:
    """Connect to the rendezvous store as another member of the group."""
    limit = timedelta(seconds=timeout)
    return C10D.TCPStore(address.host, address.port, is_master=False, timeout=limit)
