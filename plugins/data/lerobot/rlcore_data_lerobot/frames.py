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
        with opened(self.file) as file:
            meta = file.metadata
            ends = np.cumsum([meta.row_group(one).num_rows for one in range(meta.num_row_groups)])
            if len(rows) and rows[-1] >= meta.num_rows:
                raise ValueError(f"it has {meta.num_rows} rows, no row {rows[-1]}")
            for group in np.unique(np.searchsorted(ends, rows, side="right")).tolist():
                stop = int(ends[group])
                at = stop - meta.row_group(group).num_rows
                wanted = iter(rows[(rows >= at) & (rows < stop)].tolist())
                row = next(wanted, None)
                for batch in file.iter_batches(TOGETHER, [group], [self.feature]):
                    if row is None:
                        break
                    while row is not None and row < at + len(batch):
                        with blaming(self.file, av.FFmpegError):
                            cell = batch.column(0)[row - at].as_py()
                            if not isinstance(cell, dict) or not cell.get("bytes"):
                                raise ValueError(
                                    f"{self.feature} at row {row} has no bytes of a PNG or JPEG, "
                                    "as embed_images of LeRobot puts them there"
                                )
                            yield image(cell["bytes"], self.picture.size)
                        row = next(wanted, None)
                    at += len(batch)
