"""Read the frames of one camera in one episode, from a video or a table. Readers are picklable."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from rlcore_data_lerobot.index import (
    INFO,
    LARGEST_PICTURE,
    Unfit,
    contradicted,
    judging,
    opened,
)
from rlcore_data_lerobot.video import decoded, image

TOGETHER = 64  # most frames that are read from parquet at once
AT_ONCE = 64 << 20  # most bytes that are read from parquet at once
LARGEST_HEAD = 1 << 20  # most bytes of a picture's file besides its pixels


@dataclass(frozen=True)
class Picture:
    """The form of returned frames: uint8 `shape`, optionally scaled and rotated by 180 degrees."""

    shape: tuple[int, int, int]
    scaled: bool = False
    upside_down: bool = False
    most: int = LARGEST_PICTURE
    """Most pixels that a frame may have in its file."""

    @property
    def size(self) -> tuple[int, int] | None:
        """Return (height, width) to scale to; None: frames are not scaled."""
        return self.shape[:2] if self.scaled else None

    def filled(self, file: Path, frames: Iterator[np.ndarray], places: Sequence[int]) -> np.ndarray:
        """Return decoded frames as uint8 `[len(places), H, W, 3]`, frame i at index `places[i]`.

        Raises:
            CheckpointError: a frame has another shape.
        """
        found = np.empty((len(places), *self.shape), np.uint8)
        for number, pixels in zip(places, frames, strict=True):
            if pixels.shape != self.shape:
                raise contradicted(
                    file,
                    f"a frame is {pixels.shape}, expected {self.shape} as {INFO} says",
                    f"correct the feature's shape in {INFO}, or give the camera a size",
                )
            found[number] = pixels[::-1, ::-1] if self.upside_down else pixels
        return found


@dataclass(frozen=True)
class VideoFrames:
    """Reads frames of a video.

    Attributes:
        times: times of the rows, in seconds of the video.
        slack: seconds by which each time differs from the row's number / fps.
    """

    file: Path
    times: np.ndarray
    slack: np.ndarray
    fps: float
    picture: Picture

    def __call__(self, which: Sequence[int]) -> np.ndarray:
        rows = list(which)
        frames = decoded(
            self.file,
            self.times[rows].tolist(),
            self.fps,
            self.picture.size,
            slack=self.slack[rows].tolist(),
            most=self.picture.most,
        )
        return self.picture.filled(self.file, frames, range(len(rows)))


@dataclass(frozen=True)
class TableFrames:
    """Reads frames of an episode that are stored as PNG or JPEG in a table, at its `rows`."""

    file: Path
    feature: str
    episode: int
    rows: np.ndarray
    picture: Picture

    def __call__(self, which: Sequence[int]) -> np.ndarray:
        rows = self.rows[list(which)]
        order = np.argsort(rows)
        return self.picture.filled(self.file, self._decoded(rows[order]), order.tolist())

    def _decoded(self, rows: np.ndarray) -> Iterator[np.ndarray]:
        """Decode the given ascending rows, reading a few rows of their row groups at a time."""
        with judging(self.file), opened(self.file) as file:
            meta = file.metadata
            ends = np.cumsum([meta.row_group(one).num_rows for one in range(meta.num_row_groups)])
            if len(rows) and rows[-1] >= meta.num_rows:
                raise ValueError(f"it has {meta.num_rows} rows, no row {rows[-1]}")
            for group in np.unique(np.searchsorted(ends, rows, side="right")).tolist():
                stop = int(ends[group])
                at = stop - meta.row_group(group).num_rows
                wanted = iter(rows[(rows >= at) & (rows < stop)].tolist())
                row = next(wanted, None)
                together = self._together(meta.row_group(group))
                for batch in file.iter_batches(together, [group], [self.feature]):
                    if row is None:
                        break
                    while row is not None and row < at + len(batch):
                        cell = batch.column(0)[row - at].as_py()
                        yield self._picture(cell, row)
                        row = next(wanted, None)
                    at += len(batch)

    def _together(self, group: pq.RowGroupMetaData) -> int:
        """Return how many cells of a row group to read at once; one may have most of its bytes."""
        chunks = [group.column(number) for number in range(group.num_columns)]
        sizes = [
            chunk.total_uncompressed_size
            for chunk in chunks
            if chunk.path_in_schema == f"{self.feature}.bytes"
        ]
        promised = group.num_rows * (8 * self.picture.most + LARGEST_HEAD)
        if sum(sizes) > promised:
            raise Unfit(
                f"{self.feature} has {sum(sizes)} bytes in {group.num_rows} rows, more than "
                f"pictures of {self.picture.most} pixels"
            )
        return int(np.clip(AT_ONCE // max(1, sum(sizes)), 1, TOGETHER))

    def _picture(self, cell: Any, row: int) -> np.ndarray:
        if not isinstance(cell, dict) or not cell.get("bytes"):
            raise Unfit(
                f"{self.feature} at row {row} has no bytes of a PNG or JPEG, as embed_images of "
                f"LeRobot puts them there, in episode {self.episode}"
            )
        return image(cell["bytes"], self.picture.size, most=self.picture.most)
