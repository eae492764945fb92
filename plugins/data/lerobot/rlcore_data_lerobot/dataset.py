"""Read a LeRobot data set as demonstrations, each episode on access.

Memory holds the numbers of one data file and the frames of one camera in one episode. Frames are
decoded on access only, so fitting a normaliser decodes none. If the rows of an episode have
different sentences (instructions), each run of rows with one sentence is a separate demonstration,
because its actions belong to that sentence.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rlcore.contracts.errors import CheckpointError, ConfigError
from rlcore.contracts.protocols import Demonstration
from rlcore.contracts.specs import EnvSpec
from rlcore.demonstrations.datasets import DatasetSummary
from rlcore.demonstrations.frames import FrameReader, LazyFrames
from rlcore.demonstrations.records import EpisodeRow
from rlcore.demonstrations.split import split_rows
from rlcore.files.damaged_files import damaged_error
from rlcore.run_folder.env_facts import EnvFacts
from rlcore_data_lerobot.frames import Picture, TableFrames, VideoFrames
from rlcore_data_lerobot.index import (
    INFO,
    LARGEST_NUMBER,
    LARGEST_PICTURE,
    Entry,
    Index,
    Unfit,
    contradicted,
    opened,
    read_columns,
    tasks_file,
)
from rlcore_data_lerobot.mapping import PAGE, Camera, Source
from rlcore_data_lerobot.mapping import Mapping as NumbersMapping
from rlcore_data_lerobot.video import CLOCK, about_video, same_clock

SUCCESS, FRAME = "next.success", "frame_index"
ROUNDING = 1e-6
"""Share of its range by which an action may be outside of it, because float32 rounds."""
TABLE = "correct the table, or convert the data set again: the file itself is whole"


@dataclass(frozen=True)
class Part:
    """Rows `start` to `stop` (exclusive) of an episode, which all have one sentence."""

    row: EpisodeRow
    entry: Entry
    start: int
    stop: int
    sentence: str


@dataclass(frozen=True)
class Window:
    """The part of a video that an episode uses.

    Attributes:
        first, last: time of the frames of the first and the last row, in seconds of the video.
        steady: whether each row's time equals its number / fps, up to half a frame.
    """

    entry: Entry
    feature: str
    file: Path
    first: float
    last: float
    steady: bool


@dataclass
class Outside:
    """Counts the entries of an action channel that are outside of its range and are clipped.

    Attributes:
        file: the description, for messages.
        source: source of the channel.
        total, count: number of entries, and of those outside of the range.
        low, high: smallest and largest entry.
    """

    file: Path | None
    source: Source
    total: int = 0
    count: int = 0
    low: float = math.inf
    high: float = -math.inf

    def add(self, column: np.ndarray) -> None:
        """Count the entries of rows `[L, m]` of the feature."""
        if self.source.bounds is None:
            return
        low, high = self.source.bounds
        near = ROUNDING * (high - low)
        values = self.source.scaled(column)
        self.total += values.size
        self.count += int(((values < low - near) | (values > high + near)).sum())
        self.low = min(self.low, float(values.min()))
        self.high = max(self.high, float(values.max()))

    @property
    def most(self) -> bool:
        return 2 * self.count > self.total

    @property
    def remark(self) -> str:
        """Return a message with the counts."""
        low, high = self.source.bounds or (-math.inf, math.inf)
        return (
            f"{self.file}: {self.source.channel}: {self.count} of {self.total} entries "
            f"({self.count / max(1, self.total):.1%}) lie outside of the range [{low:g}, {high:g}] "
            f"and would be cut; they go from {self.low:g} to {self.high:g}"
        )


@dataclass(frozen=True)
class Survey:
    """The contents of the rows of a data set.

    Attributes:
        parts: all demonstrations.
        windows: the parts of videos that the episodes use, of all cameras.
        outside: counts of each action channel.
    """

    parts: Sequence[Part]
    windows: Sequence[Window]
    outside: Sequence[Outside]


@dataclass(frozen=True)
class Numbers:
    """The columns of a data file without frames; rows are ordered by episode and `frame_index`.

    Attributes:
        places: int64 `[L]`, position of each row in the file.
        frames: int64 `[L]`, `frame_index`; None: the file has no such column.
        spans: (first row, last row + 1) of each episode, by its number.
    """

    table: pa.Table
    places: np.ndarray
    frames: np.ndarray | None
    spans: dict[int, tuple[int, int]]


class LeRobotSet:
    """A LeRobot data set; see :class:`rlcore.demonstrations.datasets.Dataset`.

    Args:
        index: index of the data set.
        mapping: how its features map to cameras and channels of the env.
        rows: rows of its episodes if rlcore wrote it; None: they are made from the data.
        described: the user's description file; None: rlcore wrote the data set.
        complete: whether its collection is complete.
    """

    def __init__(
        self,
        index: Index,
        mapping: NumbersMapping,
        *,
        rows: Sequence[EpisodeRow] | None = None,
        described: Path | None = None,
        complete: bool = True,
    ) -> None:
        self.index, self.mapping = index, mapping
        self.facts: EnvFacts = mapping.facts
        self.complete = complete
        self._rows, self._described = rows, described
        self._numbers = lru_cache(maxsize=1)(self._read_numbers)

    def __len__(self) -> int:
        return len(self.index.entries)

    def starts(self) -> set[tuple[str, int]]:
        """Return (task name, trial) of the episodes if rlcore wrote them, else an empty set."""
        return {(row.task, row.trial) for row in self._rows or ()}

    def check(self, spec: EnvSpec) -> None:
        """Raise ConfigError unless a policy for `spec` can learn from these episodes."""
        if not len(self) or (self._rows is not None and not any(r.success for r in self._rows)):
            raise ConfigError(
                f"no demonstrations are left to learn from in {self.index.path}",
                hint="collect more: rlcore collect",
            )
        says = self._described or self.index.path
        for what, mine, wanted in self.facts.differences(EnvFacts.from_spec(spec), pixels=True):
            raise ConfigError(
                f"the demonstrations in {says} have {what} {mine}, env {spec.name!r} has {wanted}",
                hint=f"change what {says} says, or the settings of the env"
                if self._described
                else "collect demonstrations with the settings of this env: rlcore collect",
            )

    def check_files(self) -> None:
        """Check that all files exist and have valid headers, and that all rows have valid numbers.

        Raises:
            CheckpointError: a file is missing, damaged, or contradicts another one.
            ConfigError: see :meth:`split`.
        """
        seen = set[Path]()
        features = {camera.feature for camera in self.mapping.cameras.values()}
        for entry in self.index.entries:
            videos = {clip.file: key for key, clip in entry.clips.items() if key in features}
            for file in sorted({entry.data, *videos} - seen):
                seen.add(file)
                if file in videos:
                    about_video(file, self._most_pixels(videos[file]))
                    continue
                with opened(file) as table:
                    absent = set(self.mapping.columns) - set(table.schema_arrow.names)
                if absent:
                    raise damaged_error(file, f"it has no column {min(absent)!r}")
        for window in self._survey.windows:
            self._check_end(window)
        first = next((part for part in self._survey.parts if part.row.success), None)
        if first is not None:  # reads a frame of each camera to check its colours and size
            demonstration = self.read(replace(first, stop=first.start + 1))
            dict(demonstration.frames)

    def summary(self) -> DatasetSummary:
        """See :meth:`rlcore.demonstrations.datasets.Dataset.summary`."""
        learned = sum(part.row.success for part in self._survey.parts)
        remarks = [outside.remark for outside in self._survey.outside if outside.count]
        late = _late(self._survey.windows, self.index.fps)
        if late:
            remarks.append(
                f"{self.index.path}: before episode {late[0]}"
                + (f" and {len(late) - 1} others" if len(late) > 1 else "")
                + ", its video has frames that belong to no row"
            )
        return DatasetSummary(learned, len(self), tuple(remarks))

    def split(
        self, val_fraction: float, seed: int
    ) -> tuple[Sequence[Demonstration], Sequence[Demonstration]]:
        """Return (training, validation); see :func:`rlcore.demonstrations.split.split_rows`.

        A data set without the feature `next.success` counts every episode as a success.

        Raises:
            ConfigError: no episode succeeded, no task has two of them for a validation split, or
                most entries of an action channel are outside of its range.
            CheckpointError: rows contradict each other or the metadata.
        """
        parts = self._survey.parts
        rows = list(dict.fromkeys(part.row for part in parts))  # as files have them
        if self._rows is not None:
            rows.sort(key=lambda row: row.episode)
        train, val = split_rows(rows, val_fraction, seed, self.index.path)
        return self._of(parts, train), self._of(parts, val)

    def _of(self, parts: Sequence[Part], rows: Sequence[EpisodeRow]) -> Demonstrations:
        order = {row: number for number, row in enumerate(rows)}
        mine = [part for part in parts if part.row in order]
        mine.sort(key=lambda part: (order[part.row], part.start))
        return Demonstrations(self, mine)

    # -- all episodes -------------------------------------------------------------------------

    @cached_property
    def _survey(self) -> Survey:
        """Read and check the rows of all episodes; for rlcore's own data sets, use its records."""
        if self._rows is not None:
            pairs = zip(self._rows, self.index.entries, strict=True)
            own = [Part(row, entry, 0, entry.length, row.task_description) for row, entry in pairs]
            return Survey(own, (), ())
        parts, windows = list[Part](), list[Window]()
        outside = [Outside(self._described, source) for source in self.mapping.actions]
        for entry in self.index.entries:
            if not entry.length:
                continue
            table = self._rows_of(entry)
            mine = list(self._parts(entry, table))
            windows += self._windows(entry, table)
            parts += mine
            if mine[0].row.success:
                columns = self._columns(entry, table)
                self._check_numbers(entry, columns)
                for each in outside:
                    each.add(columns[each.source.feature])
        _check_apart(windows, self.index.fps)
        if parts and not any(part.row.success for part in parts):
            raise ConfigError(
                f"none of the {len(self)} episodes in {self.index.path} is to be learned from: "
                f"{SUCCESS} is true in no row",
                hint=f"take {SUCCESS} out of {INFO} to learn from all of them",
            )
        if wrong := [each for each in outside if each.most]:
            raise ConfigError(
                "\n".join(each.remark for each in wrong),
                hint=f"the numbers are probably of another unit, such as degrees: set "
                f"{wrong[0].source.channel}.scale (degrees to radians: 0.0174533), or "
                f"{wrong[0].source.channel}.range to what the env states: {PAGE}",
            )
        return Survey(parts, tuple(windows), tuple(outside))

    def _parts(self, entry: Entry, table: pa.Table) -> Iterator[Part]:
        """Yield the parts of an episode, one for each run of rows with one sentence."""
        texts = list(self.index.sentences.values())
        runs = list(self._runs(entry, self._whole(entry, table, "task_index")))
        first = runs[0][2]
        row = EpisodeRow(
            task_index=len(texts) - 1 - texts[::-1].index(first),
            trial=entry.number,
            replica=0,
            task=first,
            task_description=first,
            success=self._succeeded(entry, table),
            length=entry.length,
            file=str(entry.data.relative_to(self.index.path)),
        )
        for start, stop, sentence in runs:
            yield Part(row, entry, start, stop, sentence)

    def _runs(self, entry: Entry, numbers: np.ndarray) -> Iterator[tuple[int, int, str]]:
        """Yield (start, stop, sentence) of each run of rows with one sentence number."""
        file = tasks_file(self.index.path, self.index.version)
        for number, start, stop in _equal(numbers):
            sentence = self.index.sentences.get(number)
            if number not in self.index.sentences:
                says = f"it has no sentence of number {number}, which episode {entry.number} has"
            elif not isinstance(sentence, str) or not sentence.strip():
                says = f"number {number}, which episode {entry.number} has, is {sentence!r}"
            else:
                yield start, stop, sentence
                continue
            raise contradicted(file, says, "write the sentence of that number there")

    def _succeeded(self, entry: Entry, table: pa.Table) -> bool:
        if SUCCESS not in self.index.features:
            return True
        flags = self._matrix(entry, table, SUCCESS)
        if not np.isin(flags, (0, 1)).all():
            value = flags[~np.isin(flags, (0, 1))][0]
            raise contradicted(
                entry.data, f"{SUCCESS} of episode {entry.number} is {value}, not 0 or 1", TABLE
            )
        return bool(flags.any())

    def _windows(self, entry: Entry, table: pa.Table) -> Iterator[Window]:
        """Yield the window of each video camera of an episode, by the times of its rows."""
        for name, camera in self.mapping.cameras.items():
            if self.index.features[camera.feature]["dtype"] != "video":
                continue
            clip = entry.clips.get(camera.feature)
            if clip is None:
                if self._succeeded(entry, table):
                    raise self._lacks(entry, name)
                continue
            times = self._times(entry, table)
            half = 0.5 / self.index.fps
            first, last = clip.start + times[0], clip.start + times[-1]
            late = clip.stop + (half if abs(times[0]) <= half else -half)
            if first < clip.start - half or last > late:
                raise contradicted(
                    entry.data,
                    f"timestamp of episode {entry.number} runs from {times[0]:.10g} to "
                    f"{times[-1]:.10g} s, and its frames are from {clip.start:.10g} to "
                    f"{clip.stop:.10g} s in {clip.file}",
                    CLOCK,
                )
            steady = bool((np.abs(times - np.arange(len(times)) / self.index.fps) < half).all())
            yield Window(entry, camera.feature, clip.file, first, last, steady)

    def _times(self, entry: Entry, table: pa.Table) -> np.ndarray:
        """Return the ascending times of the rows in seconds of the episode, float64 `[L]`."""
        times = self._matrix(entry, table, "timestamp")[:, 0].astype(float)
        if not np.isfinite(times).all() or not (np.diff(times) > 0).all():
            raise contradicted(
                entry.data,
                f"timestamp of episode {entry.number} does not ascend from row to row, so it does "
                "not say which frame of the video is whose",
                CLOCK,
            )
        return times

    def _check_end(self, window: Window) -> None:
        """Raise CheckpointError if a video ends before the last row of an episode."""
        end, rate = about_video(window.file, self._most_pixels(window.feature))
        if window.last <= end:
            return
        says = f"it has no frame at {window.last:.10g} s for episode {window.entry.number}"
        says += f", as it ends at {end:.4f} s"
        if window.steady and same_clock(rate, self.index.fps):
            raise damaged_error(window.file, says)
        says += f"; it has {rate:g} frames a second, {INFO} says {self.index.fps:g}"
        raise contradicted(window.file, says, CLOCK)

    def _most_pixels(self, feature: str) -> int:
        return min(LARGEST_PICTURE, math.prod(self.index.features[feature]["shape"]))

    def _lacks(self, entry: Entry, camera: str) -> CheckpointError:
        return contradicted(
            self.index.path,
            f"episode {entry.number} has no frames of camera {camera!r} "
            f"({self.mapping.cameras[camera].feature})",
            "leave the camera out of the description, or that episode out of the data set",
        )

    # -- one episode --------------------------------------------------------------------------

    def read(self, part: Part) -> Demonstration:
        """Read a demonstration. Raises CheckpointError if a file is missing or damaged."""
        entry, mapping = part.entry, self.mapping
        table = self._rows_of(entry)
        rows = slice(part.start, part.stop)
        columns = {name: c[rows] for name, c in self._columns(entry, table).items()}
        self._check_numbers(entry, columns, part.start)
        length = part.stop - part.start
        empty = [np.zeros((length, 0), np.float32)]
        steps = np.arange(0, length, mapping.stride)
        return Demonstration(
            episode=part.row.episode,
            instruction=part.sentence,
            frames=LazyFrames(
                {
                    name: self._reader(name, camera, entry, table, part.start + steps)
                    for name, camera in mapping.cameras.items()
                },
                len(steps),
            ),
            frame_steps=steps.astype(np.int64),
            states=np.concatenate(
                empty + [one.take(columns[one.feature]) for one in mapping.states], axis=1
            ),
            actions=np.concatenate(
                empty + [one.take(columns[one.feature]) for one in mapping.actions], axis=1
            ),
            success=part.row.success,
        )

    def _columns(self, entry: Entry, table: pa.Table) -> dict[str, np.ndarray]:
        return {name: self._matrix(entry, table, name) for name in self.mapping.columns}

    def _check_numbers(
        self, entry: Entry, columns: Mapping[str, np.ndarray], first: int = 0
    ) -> None:
        """Raise CheckpointError for numbers that are not finite, before or after conversion.

        Args:
            first: number of the columns' first row in the episode, for messages.
        """
        for name, column in columns.items():
            bad = np.argwhere(~np.isfinite(column))
            if len(bad):
                row, place = bad[0].tolist()
                raise damaged_error(
                    entry.data,
                    f"{name} of episode {entry.number} at row {first + row}, entry {place} "
                    f"is {column[row, place]}",
                )
        for source in (*self.mapping.states, *self.mapping.actions):
            bad = np.argwhere(~np.isfinite(source.scaled(columns[source.feature])))
            if len(bad):
                row, _ = bad[0].tolist()
                raise contradicted(
                    entry.data,
                    f"{source.feature} of episode {entry.number} at row {first + row} is "
                    f"{np.abs(columns[source.feature][row]).max()}, times scale {source.scale:g} "
                    "more than float32 holds",
                    "correct the number, or the scale",
                )

    def _reader(
        self, name: str, camera: Camera, entry: Entry, table: pa.Table, rows: np.ndarray
    ) -> FrameReader:
        height, width = self.facts.cameras[name]
        most = self._most_pixels(camera.feature)
        shape = (height, width, 3)
        picture = Picture(shape, camera.size is not None, camera.upside_down, most)
        clip = entry.clips.get(camera.feature)
        if clip is not None:
            times = self._times(entry, table)
            slack = np.abs(times - times[0] - np.arange(len(times)) / self.index.fps)
            return VideoFrames(
                clip.file, clip.start + times[rows], slack[rows], self.index.fps, picture
            )
        if self.index.features[camera.feature]["dtype"] == "video":
            raise self._lacks(entry, name)
        start, _ = self._span(entry)
        places = self._numbers(entry.data).places[start + rows]
        return TableFrames(entry.data, camera.feature, entry.number, places, picture)

    def _rows_of(self, entry: Entry) -> pa.Table:
        """Return an episode's rows, ordered by `frame_index`.

        Raises:
            CheckpointError: their number differs from the metadata, or `frame_index` is not
                0, 1, 2, ...
        """
        start, stop = self._span(entry)
        numbers = self._numbers(entry.data)
        if numbers.frames is not None:
            wrong = np.flatnonzero(numbers.frames[start:stop] != np.arange(stop - start))
            if len(wrong):
                row = int(wrong[0])
                raise contradicted(
                    entry.data,
                    f"frame_index of episode {entry.number} is {numbers.frames[start + row]} where "
                    f"{row} is to be: an episode has its rows from 0 on, each once",
                    TABLE,
                )
        return numbers.table.slice(start, stop - start)

    def _matrix(self, entry: Entry, table: pa.Table, name: str) -> np.ndarray:
        """Return a column as `[L, n]`, n being the number of entries of its feature."""
        try:
            return _matrix(table[name], self._width(name))
        except Unfit as error:
            says = f"{name} of episode {entry.number} {error}"
            raise contradicted(entry.data, says, TABLE) from None

    def _whole(self, entry: Entry, table: pa.Table, name: str) -> np.ndarray:
        try:
            return _whole(table[name], self._width(name))
        except Unfit as error:
            says = f"{name} of episode {entry.number} {error}"
            raise contradicted(entry.data, says, TABLE) from None

    def _width(self, name: str) -> int:
        return math.prod(self.index.features.get(name, {"shape": (1,)})["shape"])

    def _span(self, entry: Entry) -> tuple[int, int]:
        """Return (first row, last row + 1) of an episode in its table."""
        start, stop = self._numbers(entry.data).spans.get(entry.number, (0, 0))
        if stop - start != entry.length:
            raise contradicted(
                entry.data,
                f"episode {entry.number} has {stop - start} rows, meta says {entry.length}",
                "get the table and the list of episodes from one copy, or correct the length",
            )
        return start, stop

    def _read_numbers(self, file: Path) -> Numbers:
        """Read the columns of a data file without frames."""
        with opened(file) as table:
            ordered = FRAME in table.schema_arrow.names
        judged = [SUCCESS] if SUCCESS in self.index.features else []
        own = ["episode_index", "task_index", "timestamp", *([FRAME] if ordered else [])]
        names = list(dict.fromkeys([*own, *judged, *self.mapping.columns]))
        table = read_columns(file, names).combine_chunks()
        name = "episode_index"
        try:
            episodes = _whole(table[name], self._width(name))
            name = FRAME
            frames = _whole(table[name], self._width(name)) if ordered else None
        except Unfit as error:
            raise contradicted(file, f"{name} {error}", TABLE) from None
        places = np.arange(len(table))
        order = np.lexsort((places if frames is None else frames, episodes))
        if (order != places).any():
            table, episodes, places = table.take(order), episodes[order], order
            frames = None if frames is None else frames[order]
        spans = {number: (start, stop) for number, start, stop in _equal(episodes)}
        return Numbers(table, places, frames, spans)


class Demonstrations(Sequence[Demonstration]):
    """Demonstrations of a data set, each read on access."""

    def __init__(self, of: LeRobotSet, parts: Sequence[Part]) -> None:
        self._of, self.parts = of, tuple(parts)

    def __len__(self) -> int:
        return len(self.parts)

    def __getitem__(self, index):  # type: ignore[no-untyped-def]
        """Return a :class:`Demonstration` for an int, a smaller sequence for a slice."""
        if isinstance(index, slice):
            return Demonstrations(self._of, self.parts[index])
        return self._of.read(self.parts[index])


def _equal(numbers: np.ndarray) -> Iterator[tuple[int, int, int]]:
    """Yield (number, start, stop) of each run of equal numbers."""
    bounds = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
    for start, stop in pairwise(bounds):
        if stop > start:
            yield int(numbers[start]), start, stop


def _late(windows: Sequence[Window], fps: float) -> list[int]:
    """Return the episodes before which a video has frames that belong to no episode."""
    in_order = sorted(windows, key=lambda one: (one.feature, one.file, one.first))
    return [
        after.entry.number
        for before, after in pairwise(in_order)
        if (before.feature, before.file) == (after.feature, after.file)
        and after.first > before.last + 1.5 / fps
    ]


def _check_apart(windows: Sequence[Window], fps: float) -> None:
    """Raise CheckpointError if two episodes overlap in a video without using the same frames.

    The times of one of them must then be wrong.

    Args:
        windows: windows of all episodes.
        fps: rows per second.
    """
    half = 0.5 / fps
    in_order = sorted(windows, key=lambda one: (one.feature, one.file, one.first, one.last))
    for before, after in pairwise(in_order):
        if (before.feature, before.file) != (after.feature, after.file):
            continue
        same = after.first - before.first < half and abs(after.last - before.last) < half
        if after.first < before.last + half and not same:
            raise contradicted(
                after.file,
                f"the frames of episode {after.entry.number} begin at {after.first:.4f} s, and "
                f"episode {before.entry.number} has its last one at {before.last:.4f} s",
                CLOCK,
            )


def _matrix(column: pa.ChunkedArray, width: int) -> np.ndarray:
    """Return a column of numbers, or of (nested) lists of `width` numbers, as `[L, width]`.

    Raises:
        Unfit: the column has another type, another number of entries, or nulls.
    """
    values = column.combine_chunks()
    even = True
    while pa.types.is_list(values.type) or pa.types.is_large_list(values.type) or \
            pa.types.is_fixed_size_list(values.type):  # fmt: skip
        even = even and len(pc.unique(pc.list_value_length(values))) <= 1
        values = values.flatten()
    kinds = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean)
    entries = len(values) - values.null_count
    if not any(kind(values.type) for kind in kinds) or entries != len(column) * width:
        raise Unfit(
            f"is {column.type}, with {entries} entries in {len(column)} rows; {INFO} says {width} "
            "numbers a row"
        )
    if not even:
        raise Unfit(f"has rows of unlike lengths; {INFO} says {width} numbers a row")
    return values.to_numpy(zero_copy_only=False).reshape(len(column), width)


def _whole(column: pa.ChunkedArray, width: int) -> np.ndarray:
    """Return a column of whole numbers as int64 `[L]`. Raises Unfit if one is not whole or < 0."""
    numbers = _matrix(column, width)[:, 0]
    fits = (numbers >= 0) & (numbers <= LARGEST_NUMBER) & (numbers == np.floor(numbers))
    if not fits.all():
        raise Unfit(f"is {numbers[~fits][0]}, expected whole numbers of at least 0")
    return numbers.astype(np.int64)
