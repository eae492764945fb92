"""Share the observations of all rows between the parent and the simulator processes.

The memory has no name. Simulator processes inherit its file descriptor, and the system frees it
when the last of them ends, even after a crash.
"""

from __future__ import annotations

import math
import mmap
import os
import sys
import tempfile

import numpy as np

from rlcore.contracts.specs import EnvSpec


class ObservationBlock:
    """Arrays in shared memory.

    Attributes:
        frames: frames by camera, in the order of the spec, uint8 `[B, H, W, 3]`.
        states: float32 `[B, S]`.
        elapsed: float32 `[B]`, elapsed fraction of the time limit.
        busy: int32 `[B]`, 1 while a process works on the row. If the process dies, the parent
            reads here which row it worked on.
        descriptor: file descriptor of the memory, which simulator processes inherit.

    Args:
        rows: number of rows, B.
        spec: spec with the names and sizes of cameras (there may be none) and the state's size.
        descriptor: file descriptor of an existing block; None allocates new memory, all zero.
    """

    def __init__(self, rows: int, spec: EnvSpec, descriptor: int | None = None) -> None:
        floats = np.dtype(np.float32)
        images = np.dtype(np.uint8)
        # arrays with wider entries come first, so that all arrays are aligned
        layout: list[tuple[np.dtype, tuple[int, ...]]] = [
            (floats, (rows, spec.state_dim)),
            (floats, (rows,)),
            (np.dtype(np.int32), (rows,)),
            *((images, (rows, camera.height, camera.width, 3)) for camera in spec.cameras),
        ]
        sizes = [dtype.itemsize * math.prod(shape) for dtype, shape in layout]
        self.descriptor = _nameless_memory(sum(sizes)) if descriptor is None else descriptor
        self._memory = mmap.mmap(self.descriptor, sum(sizes))
        if descriptor is not None and hasattr(mmap, "MADV_DONTFORK"):
            # child processes of the simulator must not write observations
            self._memory.madvise(mmap.MADV_DONTFORK)
        self.states, self.elapsed, self.busy, *frames = (
            np.ndarray(shape, dtype, buffer=self._memory, offset=sum(sizes[:place]))
            for place, (dtype, shape) in enumerate(layout)
        )
        self.frames = {
            camera.name: array for camera, array in zip(spec.cameras, frames, strict=True)
        }

    def close(self) -> None:
        """Free the memory and the arrays. Safe to call twice."""
        if self.descriptor >= 0:
            del self.states, self.elapsed, self.busy, self.frames
            self._memory.close()
            os.close(self.descriptor)
            self.descriptor = -1


def _nameless_memory(nbytes: int) -> int:
    """Allocate `nbytes` zeroed bytes of memory without a name, and return the file descriptor."""
    if sys.platform == "linux":
        descriptor = os.memfd_create("rlcore-observations")
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    os.ftruncate(descriptor, nbytes)
    return descriptor
