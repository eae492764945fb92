"""Control when the allocator returns freed memory to the system."""

from __future__ import annotations

import contextlib
import ctypes

_MMAP_THRESHOLD = -3  # of mallopt(3)
DEFAULT_THRESHOLD = 32 * 2**20
"""Largest threshold in bytes that the GNU C library chooses when it adapts it by itself."""


def set_mmap_threshold(size: int) -> None:
    """Serve allocations of `size` bytes or more by mmap from now on.

    Freed, such memory returns to the system at once, and can't be held back by small allocations in
    the same arena. Each allocation costs a system call, so restore :data:`DEFAULT_THRESHOLD`
    afterwards. Has an effect only with the GNU C library.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, size)
