"""Offload tensors from an accelerator to host memory, and bring them back.

Only the memory is released, not the tensors: names, shapes and references stay as they are, and so
do tensors over the same memory, such as tied weights and the shard that the optimizer steps. While
offloaded, a tensor must not be read or written: there is no memory behind it, and the process ends.

Knows nothing of policies and optimizers, nor of when to offload:
:mod:`rlcore.workers.policy_worker`.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from rlcore.learner import dtensor


class HostCopies:
    """Host copies of offloaded tensors. The host memory is reused the next time."""

    def __init__(self) -> None:
        self._away: dict[int, tuple[torch.UntypedStorage, Tensor]] = {}
        self._spare: dict[int, list[Tensor]] = {}

    def __len__(self) -> int:
        """Return the number of bytes that are offloaded now."""
        return sum(len(copy) for _, copy in self._away.values())

    def offload(self, tensors: Iterable[Tensor], device: torch.device) -> None:
        """Copy tensors to the host and free their memory on `device`.

        Tensors that are elsewhere stay, as those that already lie on the host do, and so does
        memory that is not torch's own.
        """
        left = {}
        for tensor in tensors:
            storage = dtensor.local_shard(tensor.detach()).untyped_storage()
            moves = storage.device.type == device.type and storage.resizable()
            if moves and storage.nbytes():
                left[storage._cdata] = storage
        for key, storage in left.items():
            spare = self._spare.get(storage.nbytes())
            copy = spare.pop() if spare else torch.empty(storage.nbytes(), dtype=torch.uint8)
            copy.copy_(_bytes(storage))
            self._away[key] = (storage, copy)
            storage.resize_(0)
        if left:
            self._spare.clear()
        _give_back(device)  # also where only what was computed lay there

    def restore(self) -> None:
        """Copy all tensors back to where they were. If they do not fit, raise torch's error; the
        rest can be copied back later."""
        for key, (storage, copy) in list(self._away.items()):
            storage.resize_(len(copy))
            _bytes(storage).copy_(copy)
            del self._away[key]
            self._spare.setdefault(len(copy), []).append(copy)

    def forget(self) -> None:
        """Drop the copies: the tensors are no longer needed."""
        self._away.clear()
        self._spare.clear()

    def resident(self, tensor: Tensor) -> Tensor:
        """Return the tensor; while offloaded, one over its host copy, to read and to write."""
        held = self._away.get(tensor.detach().untyped_storage()._cdata)
        if held is None:
            return tensor
        there = torch.empty(0, dtype=tensor.dtype)
        place, shape, stride = tensor.storage_offset(), tensor.shape, tensor.stride()
        return there.set_(held[1].untyped_storage(), place, shape, stride)


def _bytes(storage: torch.UntypedStorage) -> Tensor:
    """uint8 over a whole storage."""
    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)


def _give_back(device: torch.device) -> None:
    """Release cached memory to the driver, so that another process can use it."""
    if device.type == "cuda":
        torch.cuda.empty_cache()
