"""Pack tensors as bytes in numpy arrays, which a shared object store passes without a copy.

Bytes, as numpy lacks bfloat16. A pickled tensor would be copied in and out, and needs pickle.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class Packed:
    """A tensor on the wire: `data` is uint8 `[bytes]`; `dtype` as torch names it ("float32")."""

    dtype: str
    shape: tuple[int, ...]
    data: np.ndarray


def dtype_name(tensor: Tensor) -> str:
    """`"float32"`, `"bfloat16"`, ..."""
    return str(tensor.dtype).removeprefix("torch.")


def as_bytes(tensor: Tensor) -> Tensor:
    """A contiguous tensor as uint8 `[bytes]` over the same memory.

    Raises:
        RuntimeError: it is not contiguous, and a copy would not be the same memory.
    """
    return tensor.detach().view(-1).view(torch.uint8)


def pack(tensor: Tensor) -> Packed:
    """`tensor` for the wire, on the host."""
    data = as_bytes(tensor.cpu().contiguous()).numpy()
    return Packed(dtype_name(tensor), tuple(tensor.shape), data)


def unpack(packed: Packed) -> Tensor:
    """The tensor, in memory of its own: the store's may be taken back."""
    tensor = torch.empty(packed.shape, dtype=getattr(torch, packed.dtype))
    as_bytes(tensor).copy_(borrow(packed.data))
    return tensor


def pack_all(tensors: Mapping[str, Tensor]) -> dict[str, Packed]:
    return {name: pack(tensor) for name, tensor in tensors.items()}


def unpack_all(arrays: Mapping[str, Packed]) -> dict[str, Tensor]:
    return {name: unpack(packed) for name, packed in arrays.items()}


def borrow(array: np.ndarray) -> Tensor:
    """A tensor over memory that may be read-only, as the store's is; to be read from only."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(array)


class Stream:
    """The bytes of tensors, one after another, to be read or written once.

    Args:
        tensors: uint8 `[n]` each.
    """

    def __init__(self, tensors: Iterable[Tensor]) -> None:
        self._tensors = iter(tensors)
        self._now = torch.empty(0, dtype=torch.uint8)

    def read(self, data: Tensor) -> None:
        """The next bytes, into uint8 `[n]`."""
        for here, piece in self._next(len(data)):
            data[here].copy_(piece)

    def write(self, data: Tensor) -> None:
        """The next bytes, from uint8 `[n]`."""
        for here, piece in self._next(len(data)):
            piece.copy_(data[here])

    def _next(self, count: int) -> Iterator[tuple[slice, Tensor]]:
        """Where among the next bytes, and what."""
        done = 0
        while done < count:
            if not len(self._now):
                self._now = next(self._tensors)
            size = min(count - done, len(self._now))
            yield slice(done, done + size), self._now[:size]
            self._now, done = self._now[size:], done + size
