"""Pack tensors as bytes in numpy arrays, which a shared object store passes without a copy.

Tensors travel as bytes because numpy has no bfloat16. A pickled tensor would be copied on both
sides, and unpickling runs code of the sender.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class PackedTensor:
    """A tensor on the wire: `data` is uint8 `[bytes]`, `dtype` is torch's name ("float32")."""

    dtype: str
    shape: tuple[int, ...]
    data: np.ndarray


def dtype_name(tensor: Tensor) -> str:
    """Return torch's name of a dtype: `"float32"`, `"bfloat16"`, ..."""
    return str(tensor.dtype).removeprefix("torch.")


def byte_view(tensor: Tensor) -> Tensor:
    """Return a uint8 `[bytes]` view of a contiguous tensor.

    Raises:
        RuntimeError: the tensor is not contiguous, so that no view of its bytes exists.
    """
    return tensor.detach().view(-1).view(torch.uint8)


def pack(tensor: Tensor) -> PackedTensor:
    """Copy a tensor to the host, if it is elsewhere, and describe it for the wire."""
    data = byte_view(tensor.cpu().contiguous()).numpy()
    return PackedTensor(dtype_name(tensor), tuple(tensor.shape), data)


def unpack(packed: PackedTensor) -> Tensor:
    """Return a copy of the tensor: the object store may reclaim the packed memory."""
    tensor = torch.empty(packed.shape, dtype=getattr(torch, packed.dtype))
    byte_view(tensor).copy_(read_only_tensor(packed.data))
    return tensor


def pack_all(tensors: Mapping[str, Tensor]) -> dict[str, PackedTensor]:
    """Pack tensors by name."""
    return {name: pack(tensor) for name, tensor in tensors.items()}


def unpack_all(arrays: Mapping[str, PackedTensor]) -> dict[str, Tensor]:
    """Unpack tensors by name."""
    return {name: unpack(packed) for name, packed in arrays.items()}


def read_only_tensor(array: np.ndarray) -> Tensor:
    """Return a tensor over an array that may be read-only, as the object store's memory is.

    Writing to the tensor is undefined behaviour.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(array)


class ByteStream:
    """A sequence of tensors read or written as one stream of bytes, once from start to end.

    Args:
        tensors: uint8 `[n]` each.
    """

    def __init__(self, tensors: Iterable[Tensor]) -> None:
        self._tensors = iter(tensors)
        self._current = torch.empty(0, dtype=torch.uint8)

    def read(self, data: Tensor) -> None:
        """Copy the next n bytes of the stream into `data`, uint8 `[n]`."""
        for place, piece in self._next(len(data)):
            data[place].copy_(piece)

    def write(self, data: Tensor) -> None:
        """Copy `data`, uint8 `[n]`, over the next n bytes of the stream."""
        for place, piece in self._next(len(data)):
            piece.copy_(data[place])

    def _next(self, count: int) -> Iterator[tuple[slice, Tensor]]:
        """Yield the pieces of the next `count` bytes, each with its range within these bytes."""
        offset = 0
        while offset < count:
            if not len(self._current):
                self._current = next(self._tensors)
            size = min(count - offset, len(self._current))
            yield slice(offset, offset + size), self._current[:size]
            self._current = self._current[size:]
            offset += size
