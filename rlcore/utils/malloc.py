"""Control when the allocator returns freed memory to the system. Light."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping

_TRIM_THRESHOLD = -1  # of mallopt(3)
_MMAP_THRESHOLD = -3
DEFAULT_THRESHOLD = 32 * 2**20
"""Largest threshold in bytes that the GNU C library chooses when it adapts it by itself."""
TRIM_VARIABLE = "MALLOC_TRIM_THRESHOLD_"
"""Environment variable by which a user sets what the GNU C library keeps (mallopt(3))."""
KEPT = 256 * 2**20
"""Most bytes of freed memory that :func:`keep_freed_memory` keeps at the end of the heap."""


def set_mmap_threshold(size: int) -> None:
    """Serve allocations of `size` bytes or more by mmap from now on.

    Freed, such memory returns to the system at once, and can't be held back by small allocations in
    the same arena. Each allocation costs a system call, so restore :data:`DEFAULT_THRESHOLD`
    afterwards. Has an effect only with the GNU C library.
    """
    _mallopt({_MMAP_THRESHOLD: size})


def keep_freed_memory() -> None:
    """Keep up to :data:`KEPT` bytes of freed memory for the next allocations, from now on.

    Each step of a small network allocates and frees the same few MiB. By default these return to
    the system each time, and are filled with zeros, page by page, when they are allocated again: a
    tenth of the CPU time of an update. Has an effect only with the GNU C library, and none where
    the user has set `MALLOC_TRIM_THRESHOLD_`. With `cluster.backend=local` the process is the
    user's: it updates there as often, and keeps no more than :data:`KEPT` after the run.
    """
    if TRIM_VARIABLE in os.environ:
        return
    # after the first one is set the library no longer adapts the other, which begins at 128 KiB
    _mallopt({_TRIM_THRESHOLD: KEPT, _MMAP_THRESHOLD: DEFAULT_THRESHOLD})


def _mallopt(options: Mapping[int, int]) -> None:
    """Set options of mallopt(3), in order, where the C library has it."""
    import ctypes  # every plan reads KEPT, and needs no more of this module

    with contextlib.suppress(OSError, AttributeError):
        library = ctypes.CDLL(None)
        for option, value in options.items():
            library.mallopt(option, value)
