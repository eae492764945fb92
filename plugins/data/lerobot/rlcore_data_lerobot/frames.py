"""Frames of one camera in one episode, in a video or in a table. Readers can be pickled."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import av
import numpy as np

from rlcore.files.damaged_files import blaming, damaged
from rlcore_data_lerobot.index import opened
from rlcore_data_lerobot.video import decoded, image

TOGETHER = 64  # frames in parquet that are read together


@dataclass(frozen=True)
class Picture:
    """What frames are to become: uint8 `shape`, scaled where `scaled`, perhaps turned by half."""

    shape: tuple[int, int, int]
    scaled: bool = False
    upside_down: bool = False

    @property
    def size(self) -> tuple[int, int] | None:
        """(height, width) to scale to."""
        return self.shape[:2] if self.scaled else None

    def filled(self, file: Path, frames: Iterator[np.ndarray], count: int) -> np.ndarray:
        """uint8 `[count, H, W, 3]`, filled as they are decoded."""
        found = np.empty((count, *self.shape), np.uint8)
        for number, pixels in enumerate(frames):
            if pixels.shape != self.shape:
                raise damaged(file, f"a frame is {pixels.shape}, expected {self.shape}")
            found[number] = pixels[::-1, ::-1] if self.upside_down else pixels
        return found


@dataclass(frozen=True)
class VideoFrames:
    """Frames of a video at `times`, in seconds from its start."""

    file: Path
    times: np.ndarray
    fps: float
    picture: Picture

    def __call__(self, which: Sequence[int]) -> np.ndarray:
        times = self.times[list(which)].tolist()
        frames = decoded(self.file, times, self.fps, self.picture.size)
        return self.picture.filled(self.file, frames, len(which))


@dataclass(frozen=True)
class TableFrames:
    """Frames kept as PNG or JPEG in a column of a table, at `rows` of it."""

    file: Path
    feature: str
    rows: np.ndarray
    picture: Picture

    def __call__(self, which: Sequence[int]) -> np.ndarray:
        frames = self._decoded(self.rows[list(which)])
        return self.picture.filled(self.file, frames, len(which))

    def _decoded(self, rows: np.ndarray) -> Iterator[np.ndarray]:
        """A few rows at a time, of the groups that have some."""
        wanted = set(rows.tolist())
        with opened(self.file) as file:
            meta, first = file.metadata, 0
            for group in range(meta.num_row_groups):
                stop = first + meta.row_group(group).num_rows
                at = first
                if wanted.intersection(range(first, stop)):
                    for batch in file.iter_batches(TOGETHER, [group], [self.feature]):
                        for one in batch.column(0):
                            if at in wanted:
                                with blaming(self.file, av.FFmpegError):
                                    yield image(one["bytes"].as_py(), self.picture.size)
                            at += 1
                first = stop
