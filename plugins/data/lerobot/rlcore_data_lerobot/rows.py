"""Read the rows of episodes from the data files, without frames."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rlcore_data_lerobot.episodes import Entry
from rlcore_data_lerobot.index import Index
from rlcore_data_lerobot.layout import INFO
from rlcore_data_lerobot.parquet import open_parquet, read_columns
from rlcore_data_lerobot.values import (
    CORRECT_CLOCK,
    CORRECT_TABLE,
    MAX_NUMBER,
    InvalidValueError,
    invalid_error,
)

SUCCESS = "next.success"
FRAME = "frame_index"


@dataclass(frozen=True)
class FileRows:
    """The rows of a data file without frames, ordered by episode and `frame_index`.

    Attributes:
        positions: int64 `[L]`, position of each row in the file.
        frames: int64 `[L]`, `frame_index`; None if the file has no such column.
        spans: (first row, last row + 1) of each episode, by its number.
    """

    table: pa.Table
    positions: np.ndarray
    frames: np.ndarray | None
    spans: dict[int, tuple[int, int]]


class EpisodeRows:
    """The rows of one episode, ordered by `frame_index`.

    Attributes:
        entry: the episode.
        positions: int64 `[L]`, position of each row in the file.
    """

    def __init__(self, index: Index, entry: Entry, table: pa.Table, positions: np.ndarray) -> None:
        self._index = index
        self.entry = entry
        self._table = table
        self.positions = positions

    def matrix(self, name: str) -> np.ndarray:
        """Return a column as `[L, n]`, n being the number of entries of its feature."""
        with invalid_column_on(self.entry.data, f"{name} of episode {self.entry.number}"):
            return to_matrix(self._table[name], width_of(self._index, name))

    def whole_numbers(self, name: str) -> np.ndarray:
        """Return a column of whole numbers as int64 `[L]`."""
        with invalid_column_on(self.entry.data, f"{name} of episode {self.entry.number}"):
            return to_whole_numbers(self._table[name], width_of(self._index, name))

    def times(self) -> np.ndarray:
        """Return the ascending times of the rows in seconds of the episode, float64 `[L]`."""
        times = self.matrix("timestamp")[:, 0].astype(float)
        if not np.isfinite(times).all() or not (np.diff(times) > 0).all():
            raise invalid_error(
                self.entry.data,
                f"timestamp of episode {self.entry.number} does not ascend from row to row, so it "
                "does not say which frame of the video belongs to which row",
                CORRECT_CLOCK,
            )
        return times

    def succeeded(self) -> bool:
        """Return whether the episode succeeded; without the feature `next.success`, it did."""
        if SUCCESS not in self._index.features:
            return True
        flags = self.matrix(SUCCESS)
        invalid = flags[~np.isin(flags, (0, 1))]
        if invalid.size:
            raise invalid_error(
                self.entry.data,
                f"{SUCCESS} of episode {self.entry.number} is {invalid[0]}, not 0 or 1",
                CORRECT_TABLE,
            )
        return bool(flags.any())


class RowReader:
    """Reads the rows of episodes. It holds the rows of one data file in memory.

    Args:
        columns: names of the features with numbers to read.
    """

    def __init__(self, index: Index, columns: Sequence[str]) -> None:
        self._index = index
        self._columns = columns
        self._file_rows = lru_cache(maxsize=1)(self._read_file)

    def read(self, entry: Entry) -> EpisodeRows:
        """Return the rows of an episode.

        Raises:
            CheckpointError: the file is damaged, the number of rows differs from the metadata, or
                `frame_index` is not 0, 1, 2, ...
        """
        rows = self._file_rows(entry.data)
        start, stop = rows.spans.get(entry.number, (0, 0))
        if stop - start != entry.length:
            raise invalid_error(
                entry.data,
                f"episode {entry.number} has {stop - start} rows, meta says {entry.length}",
                "get the table and the list of episodes from one copy, or correct the length",
            )
        if rows.frames is not None:
            wrong = np.flatnonzero(rows.frames[start:stop] != np.arange(stop - start))
            if len(wrong):
                row = int(wrong[0])
                raise invalid_error(
                    entry.data,
                    f"frame_index of episode {entry.number} is {rows.frames[start + row]}, "
                    f"expected {row}: the rows of an episode are numbered from 0",
                    CORRECT_TABLE,
                )
        table = rows.table.slice(start, stop - start)
        return EpisodeRows(self._index, entry, table, rows.positions[start:stop])

    def _read_file(self, file: Path) -> FileRows:
        """Read the columns of a data file without frames."""
        with open_parquet(file) as table:
            has_frames = FRAME in table.schema_arrow.names
        names = ["episode_index", "task_index", "timestamp"]
        if has_frames:
            names.append(FRAME)
        if SUCCESS in self._index.features:
            names.append(SUCCESS)
        table = read_columns(file, list(dict.fromkeys([*names, *self._columns]))).combine_chunks()
        episodes = self._file_numbers(file, table, "episode_index")
        frames = self._file_numbers(file, table, FRAME) if has_frames else None
        positions = np.arange(len(table))
        order = np.lexsort((positions if frames is None else frames, episodes))
        if (order != positions).any():
            table = table.take(order)
            episodes = episodes[order]
            positions = order
            frames = None if frames is None else frames[order]
        spans = {number: (start, stop) for number, start, stop in runs(episodes)}
        return FileRows(table, positions, frames, spans)

    def _file_numbers(self, file: Path, table: pa.Table, name: str) -> np.ndarray:
        """Return a column of whole numbers of all rows, int64 `[L]`."""
        with invalid_column_on(file, name):
            return to_whole_numbers(table[name], width_of(self._index, name))


@contextmanager
def invalid_column_on(file: Path, column: str) -> Iterator[None]:
    """Convert an InvalidValueError into the error for an invalid column of a table."""
    try:
        yield
    except InvalidValueError as error:
        raise invalid_error(file, f"{column} {error}", CORRECT_TABLE) from None


def width_of(index: Index, name: str) -> int:
    """Return the number of entries of a feature in each row; 1 if it is not described."""
    return math.prod(index.features.get(name, {"shape": (1,)})["shape"])


def runs(numbers: np.ndarray) -> Iterator[tuple[int, int, int]]:
    """Yield (number, start, stop) of each run of equal numbers."""
    bounds = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
    for start, stop in pairwise(bounds):
        if stop > start:
            yield int(numbers[start]), start, stop


def to_matrix(column: pa.ChunkedArray, width: int) -> np.ndarray:
    """Return a column of numbers, or of (nested) lists of `width` numbers, as `[L, width]`.

    Raises:
        InvalidValueError: the column has another type, another number of entries, or nulls.
    """
    values = column.combine_chunks()
    is_even = True
    list_types = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    while any(is_type(values.type) for is_type in list_types):
        is_even = is_even and len(pc.unique(pc.list_value_length(values))) <= 1
        values = values.flatten()
    number_types = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean)
    entries = len(values) - values.null_count
    is_number = any(is_type(values.type) for is_type in number_types)
    if not is_number or entries != len(column) * width:
        raise InvalidValueError(
            f"is {column.type}, with {entries} entries in {len(column)} rows; {INFO} says {width} "
            "numbers a row"
        )
    if not is_even:
        raise InvalidValueError(f"has rows of unlike lengths; {INFO} says {width} numbers a row")
    return values.to_numpy(zero_copy_only=False).reshape(len(column), width)


def to_whole_numbers(column: pa.ChunkedArray, width: int) -> np.ndarray:
    """Return a column of whole numbers as int64 `[L]`.

    Raises:
        InvalidValueError: a value is negative, no whole number or too large.
    """
    numbers = to_matrix(column, width)[:, 0]
    is_valid = (numbers >= 0) & (numbers <= MAX_NUMBER) & (numbers == np.floor(numbers))
    if not is_valid.all():
        raise InvalidValueError(f"is {numbers[~is_valid][0]}, expected whole numbers of at least 0")
    return numbers.astype(np.int64)
