"""Send bytes from one process to several on other nodes: gloo, or NCCL between accelerators.

Each route has a process group of its own, beside the one in which actor ranks sum gradients. It is
formed at the first transfer and reused, as forming it takes longer than sending small weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed
from torch import Tensor

ROOT = 0
C10D: Any = torch.distributed  # it does not export the types of its classes


@dataclass(frozen=True)
class Address:
    """Where the members of a group meet."""

    host: str
    port: int


class Broadcast:
    """One member's end of a group whose first member sends to all others.

    Args:
        store: where they meet.
        rank: of this member; 0 sends.
        size: number of members.
        timeout: seconds that a member waits for the others, here and in every transfer.
        nccl: between accelerators, all different ones.
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
        """Where the bytes have to be."""

    def pass_on(self, data: Tensor) -> None:
        """Send uint8 `[n]`, or receive it in place; returns when it is done."""
        options = C10D.BroadcastOptions()
        options.rootRank = ROOT
        options.rootTensor = 0
        self._group.broadcast([data], options).wait()
        if data.is_cuda:
            torch.cuda.current_stream().synchronize()


def invite(host: str, timeout: float) -> tuple[Any, Address]:
    """A place on this host, known to others as `host`, where a group can meet."""
    limit = timedelta(seconds=timeout)
    store = C10D.TCPStore(host, 0, is_master=True, timeout=limit, wait_for_workers=False)
    return store, Address(host, store.port)


def join(address: Address, timeout: float) -> Any:
    """That place, as another member sees it."""
    limit = timedelta(seconds=timeout)
    return C10D.TCPStore(address.host, address.port, is_master=False, timeout=limit)
