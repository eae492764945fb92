"""Compute checksums of tensors, to detect workers that loaded different weights."""

from __future__ import annotations

import zlib
from collections.abc import Iterable

import torch
from torch import Tensor


def checksums(named: Iterable[tuple[str, Tensor]]) -> dict[str, str]:
    """Return the CRC-32 of each tensor's bytes, in hexadecimal, by name."""
    return {name: f"{zlib.crc32(_bytes(tensor)):08x}" for name, tensor in named}


def _bytes(tensor: Tensor) -> memoryview:
    # copied, because torch refuses to resize a tensor whose memory numpy has viewed
    copy = torch.empty_like(tensor, device="cpu", memory_format=torch.contiguous_format)
    return copy.copy_(tensor.detach()).flatten().view(torch.uint8).numpy().data
