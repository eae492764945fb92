"""Offload tensors from an accelerator to host memory, and restore them.

Offloading releases a tensor's memory and leaves the tensor itself valid: its shape and all
references to it remain, as do other tensors over the same memory, such as tied weights and the
shard that the optimizer steps. An offloaded tensor has no memory: reading or writing it crashes the
process.

Knows no policy and no optimizer; :mod:`rlcore.workers.policy_worker` decides when to offload.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from rlcore.learner import dtensor


class HostCopies:
    """Host copies of offloaded tensors. Their memory is reused by the next offload."""

    def __init__(self) -> None:
        self._away: dict[int, tuple[torch.UntypedStorage, Tensor]] = {}
        self._spare: dict[int, list[Tensor]] = {}

    def __len__(self) -> int:
        """Return the number of bytes that are currently offloaded."""
        return sum(len(copy) for _, copy in self._away.values())

    def offload(self, tensors: Iterable[Tensor], device: torch.device) -> None:
        """Copy tensors to the host and free their memory on `device`.

        Tensors on other devices are skipped, as is memory that torch did not allocate.
        """
        storages = {}
        for tensor in tensors:
            storage = dtensor.local_shard(tensor.detach()).untyped_storage()
            movable = storage.device.type == device.type and storage.resizable()
            if movable and storage.nbytes():
                storages[storage._cdata] = storage
        for key, storage in storages.items():
            spare = self._spare.get(storage.nbytes())
            copy = spare.pop() if spare else torch.empty(storage.nbytes(), dtype=torch.uint8)
            copy.copy_(_bytes(storage))
            self._away[key] = (storage, copy)
            storage.resize_(0)
        if storages:
            self._spare.clear()
        # even if no tensor was offloaded, the cache may hold memory of activations
        _release_cache(device)

    def restore(self) -> None:
        """Copy all tensors back to their device.

        Raises:
            torch.OutOfMemoryError: a tensor does not fit. The remaining tensors are still
                offloaded, and a later call can restore them.
        """
        for key, (storage, copy) in list(self._away.items()):
            storage.resize_(len(copy))
            _bytes(storage).copy_(copy)
            del self._away[key]
            self._spare.setdefault(len(copy), []).append(copy)

    def forget(self) -> None:
        """Drop all copies, when the tensors are not needed any more."""
        self._away.clear()
        self._spare.clear()

    def resident(self, tensor: Tensor) -> Tensor:
        """Return the tensor, or, while it is offloaded, a tensor over its host copy. Both can be
        read and written."""
        offloaded = self._away.get(tensor.detach().untyped_storage()._cdata)
        if offloaded is None:
            return tensor
        _, copy = offloaded
        return torch.empty(0, dtype=tensor.dtype).set_(
            copy.untyped_storage(), tensor.storage_offset(), tensor.shape, tensor.stride()
        )


def _bytes(storage: torch.UntypedStorage) -> Tensor:
    """Return a uint8 tensor `[bytes]` over a whole storage."""
    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)


def _release_cache(device: torch.device) -> None:
    """Release cached memory to the driver, so that another process can use it."""
    if device.type == "cuda":
        torch.cuda.empty_cache()
