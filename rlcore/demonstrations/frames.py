"""Frames that are read from disk on access, some of them or all. Imports no tensor library."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np


class FrameReader(Protocol):
    """Reads frames of one camera in one episode. It is picklable, for use in other processes."""

    def __call__(self, which: Sequence[int]) -> np.ndarray:
        """Return frames uint8 `[len(which), H, W, 3]`.

        Args:
            which: numbers of the frames in the episode, ascending.

        Raises:
            CheckpointError: the file is missing or damaged.
        """


class LazyFrames(Mapping[str, np.ndarray]):
    """The frames of an episode by camera, read on each access and not cached.

    Args:
        readers: the reader of each camera.
        count: number of frames of the episode.
    """

    def __init__(self, readers: Mapping[str, FrameReader], count: int) -> None:
        self._readers = dict(readers)
        self._count = count

    def read(self, which: Sequence[int]) -> dict[str, np.ndarray]:
        """Return frames by camera; `which` has their numbers, ascending."""
        return {camera: reader(which) for camera, reader in self._readers.items()}

    def __getitem__(self, camera: str) -> np.ndarray:
        return self._readers[camera](range(self._count))

    def __iter__(self) -> Iterator[str]:
        return iter(self._readers)

    def __len__(self) -> int:
        return len(self._readers)
