"""Frames that are read when they are asked for, each by itself or all. Light."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np


class FrameReader(Protocol):
    """The frames of one camera in one episode. It can be pickled: other processes read too."""

    def __call__(self, which: Sequence[int]) -> np.ndarray:
        """Return uint8 `[len(which), H, W, 3]`, the frames of these numbers, which ascend.

        Raises:
            CheckpointError: they are missing or damaged.
        """


class LazyFrames(Mapping[str, np.ndarray]):
    """Frames of an episode by camera, read each time they are asked for, and not kept.

    Args:
        readers: of each camera.
        count: number of frames.
    """

    def __init__(self, readers: Mapping[str, FrameReader], count: int) -> None:
        self._readers, self._count = dict(readers), count

    def read(self, which: Sequence[int]) -> dict[str, np.ndarray]:
        """The frames of some numbers, ascending, by camera."""
        return {camera: reader(which) for camera, reader in self._readers.items()}

    def __getitem__(self, camera: str) -> np.ndarray:
        return self._readers[camera](range(self._count))

    def __iter__(self) -> Iterator[str]:
        return iter(self._readers)

    def __len__(self) -> int:
        return len(self._readers)
