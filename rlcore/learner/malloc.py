"""Control when the allocator returns freed memory to the system."""

from __future__ import annotations

import contextlib
import ctypes

_MMAP_THRESHOLD = -3  # of mallopt(3)
USUAL = 32 * 2**20
"""The most that GNU's C library chooses by itself as a process goes on."""


def set_mmap_threshold(least: int) -> None:
    """Give allocations of `least` bytes or more a mapping of their own from now on: freed, they
    return to the system at once, even if small allocations share the arena. That costs a system
    call each time, so end with :data:`USUAL`. Works with GNU's C library; others are left as they
    are."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, least)
