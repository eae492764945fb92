"""Observations of all rows in memory that parent and simulator processes share.

The memory has no name: processes inherit its file descriptor, and the system frees it with the
last process that holds it. There is nothing to unlink and nothing left behind by a crash.
"""

from __future__ import annotations

import mmap
import os
import sys
import tempfile

import numpy as np

# Entries of MetaWorld's observation that a robot knows of itself: hand position, gripper opening.
STATE_SIZE = 4


class ObservationBlock:
    """Arrays over a piece of memory.

    Attributes:
        frames: uint8 `[B, H, W, 3]`.
        states: float32 `[B, S]`.
        elapsed: float32 `[B]`, elapsed fraction of the time limit.
        busy: int32 `[B]`, 1 while a process works on the row; says where it died.
        descriptor: file descriptor of the memory, to be inherited.

    Args:
        rows: B.
        size: H and W in pixels.
        descriptor: of the memory of an existing block; None makes new memory, all zero.
    """

    def __init__(self, rows: int, size: int, descriptor: int | None = None) -> None:
        total = rows * (4 * (STATE_SIZE + 2) + 3 * size * size)
        self.descriptor = _nameless_memory(total) if descriptor is None else descriptor
        self._memory = memory = mmap.mmap(self.descriptor, total)
        floats = np.frombuffer(memory, dtype=np.float32, count=rows * (STATE_SIZE + 1))
        self.states = floats[: rows * STATE_SIZE].reshape(rows, STATE_SIZE)
        self.elapsed = floats[rows * STATE_SIZE :]
        self.busy = np.frombuffer(memory, dtype=np.int32, count=rows, offset=floats.nbytes)
        start = floats.nbytes + self.busy.nbytes
        pixels = np.frombuffer(memory, dtype=np.uint8, offset=start)
        self.frames = pixels.reshape(rows, size, size, 3)

    def close(self) -> None:
        """Give the memory up, and the arrays with it. Safe to call twice."""
        if self.descriptor >= 0:
            del self.states, self.elapsed, self.busy, self.frames
            self._memory.close()
            os.close(self.descriptor)
            self.descriptor = -1


def _nameless_memory(nbytes: int) -> int:
    """A file descriptor of `nbytes` zeroed bytes that no name leads to."""
    if sys.platform == "linux":
        descriptor = os.memfd_create("rlcore-metaworld")
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    os.ftruncate(descriptor, nbytes)
    return descriptor
