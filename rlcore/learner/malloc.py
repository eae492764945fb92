"""Control when the allocator returns freed memory to the system."""

from __future__ import annotations

import contextlib
import ctypes

_MMAP_THRESHOLD = -3  # of mallopt(3)
USUAL = 32 * 2**20
"""The most that GNU's C library chooses by itself as a process goes on."""


def map_alone(least: int) -> None:
    """Let memory of `least` bytes or more have a mapping of its own from now on: freed, it goes
    back to the system at once, whatever small thing has come to lie beside it. That costs a call
    of the system each time, so :data:`USUAL` is what to end with. Of GNU's C library; another one
    goes on as it does."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, least)
