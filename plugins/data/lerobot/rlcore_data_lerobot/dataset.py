"""Read a LeRobot data set as demonstrations, an episode when it is asked for.

Memory holds the numbers of one data file and the frames of one camera in one episode: a policy that
looks at no frame, as it fits its normaliser, decodes none. Where rows of an episode
have different sentences, each run of equal ones is a demonstration of its own: the actions of one
sentence are not those of the next.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
from rlcore_demonstrations.dataset import split_rows
from rlcore_demonstrations.frames import FrameReader, LazyFrames
from rlcore_demonstrations.layout import EpisodeRow

from rlcore.contracts.errors import ConfigError
from rlcore.contracts.protocols import Demonstration
from rlcore.contracts.specs import EnvSpec
from rlcore.files.damaged_files import blaming, damaged
from rlcore.run_folder.env_facts import EnvFacts
from rlcore_data_lerobot.frames import Picture, TableFrames, VideoFrames
from rlcore_data_lerobot.index import INFO, Entry, Index, opened, read_columns, tasks_file
from rlcore_data_lerobot.mapping import Camera, Mapping
from rlcore_data_lerobot.video import decoded

SUCCESS = "next.success"


@dataclass(frozen=True)
class Part:
    """Rows `start` to `stop` of an episode, which have one sentence."""

    row: EpisodeRow
    entry: Entry
    start: int
    stop: int
    sentence: str


class LeRobotSet:
    """See :class:`rlcore.demonstrations.datasets.Dataset`.

    Args:
        index: of the data set.
        mapping: what its numbers are.
        rows: of its episodes, where rlcore wrote it; None: made from the data.
        described: where the user said what the numbers are; None: the data set itself does.
        complete: whether its collection came to its end.
    """

    def __init__(
        self,
        index: Index,
        mapping: Mapping,
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
        """(task by name, trial) of the episodes, where rlcore wrote them; others have none."""
        return {(row.task, row.trial) for row in self._rows or ()}

    def check(self, spec: EnvSpec) -> None:
        """Raise ConfigError unless a policy for `spec` can learn from these episodes."""
        if not len(self):
            raise ConfigError(
                f"no demonstrations are left to learn from in {self.index.path}",
                hint="collect more: rlcore collect",
            )
        says = self._described or self.index.path
        for what, mine, wanted in self.facts.unlike(EnvFacts.of(spec), pixels=True):
            raise ConfigError(
                f"the demonstrations in {says} have {what} {mine}, env {spec.name!r} has {wanted}",
                hint=f"change what {says} says, or the settings of the env"
                if self._described
                else "collect demonstrations with the settings of this env: rlcore collect",
            )

    def check_files(self) -> None:
        """Raise CheckpointError unless all files are there and begin as they should."""
        seen = set[Path]()
        for entry in self.index.entries:
            videos = {
                clip.file
                for key, clip in entry.clips.items()
                if key in {camera.feature for camera in self.mapping.cameras.values()}
            }
            for file in sorted({entry.data, *videos} - seen):
                seen.add(file)
                if file in videos:
                    next(decoded(file, (), self.index.fps), None)
                    continue
                with opened(file) as table:
                    absent = set(self.mapping.columns) - set(table.schema_arrow.names)
                if absent:
                    raise damaged(file, f"it has no column {min(absent)!r}")

    def split(
        self, val_fraction: float, seed: int
    ) -> tuple[Sequence[Demonstration], Sequence[Demonstration]]:
        """See :func:`rlcore_demonstrations.dataset.split_rows`. Where nothing says which episodes
        succeeded, all are learned from."""
        parts = list(self._parts())
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

    def _parts(self) -> Iterator[Part]:
        """All parts of all episodes, in the order of the files."""
        if self._rows is not None:
            for row, entry in zip(self._rows, self.index.entries, strict=True):
                yield Part(row, entry, 0, entry.length, row.task_description)
            return
        judged = SUCCESS in self.index.features
        tasks = {text: number for number, text in enumerate(self.index.sentences.values())}
        for entry in self.index.entries:
            table = self._rows_of(entry)
            runs = list(self._runs(entry, self._matrix(entry, table, "task_index")[:, 0]))
            if not runs:
                continue  # an episode without a row
            success = not judged or bool(self._matrix(entry, table, SUCCESS).any())
            first = runs[0][2]
            row = EpisodeRow(
                task_index=tasks.get(first, 0),
                trial=entry.number,
                replica=0,
                task=first,
                task_description=first,
                success=success,
                length=entry.length,
                file=str(entry.data.relative_to(self.index.path)),
            )
            for start, stop, sentence in runs:
                yield Part(row, entry, start, stop, sentence)

    def _runs(self, entry: Entry, numbers: np.ndarray) -> Iterator[tuple[int, int, str]]:
        """(start, stop, sentence) of rows that follow each other with one sentence."""
        for number, start, stop in _equal(numbers):
            if number not in self.index.sentences:
                raise damaged(
                    tasks_file(self.index.path, self.index.version),
                    f"it has no sentence of number {number}, which episode {entry.number} has",
                )
            yield start, stop, self.index.sentences[number]

    # -- one episode --------------------------------------------------------------------------

    def read(self, part: Part) -> Demonstration:
        """Raises CheckpointError where a file is missing or damaged."""
        entry, mapping = part.entry, self.mapping
        table = self._rows_of(entry).slice(part.start, part.stop - part.start)
        columns = {name: self._matrix(entry, table, name) for name in mapping.columns}
        for name, column in columns.items():
            bad = np.argwhere(~np.isfinite(column))
            if len(bad):
                row, place = bad[0].tolist()
                raise damaged(
                    entry.data,
                    f"{name} of episode {entry.number} at row {part.start + row}, entry {place} "
                    f"is {column[row, place]}",
                )
        length = part.stop - part.start
        empty = [np.zeros((length, 0), np.float32)]
        steps = np.arange(0, length, mapping.stride)
        times = self._matrix(entry, table, "timestamp")[steps, 0].astype(float)
        return Demonstration(
            episode=part.row.episode,
            task_description=part.sentence,
            frames=LazyFrames(
                {
                    name: self._reader(name, camera, entry, part.start + steps, times)
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

    def _reader(
        self, name: str, camera: Camera, entry: Entry, rows: np.ndarray, times: np.ndarray
    ) -> FrameReader:
        height, width = self.facts.cameras[name]
        picture = Picture((height, width, 3), camera.size is not None, camera.upside_down)
        clip = entry.clips.get(camera.feature)
        if clip is None:
            return TableFrames(entry.data, camera.feature, self._span(entry)[0] + rows, picture)
        if not (np.diff(times) > 0).all():
            raise damaged(
                entry.data,
                f"timestamp of episode {entry.number} does not ascend from row to row, so it does "
                "not say which frame of the video is whose",
            )
        return VideoFrames(clip.file, clip.start + times, self.index.fps, picture)

    def _rows_of(self, entry: Entry) -> pa.Table:
        start, stop = self._span(entry)
        return self._numbers(entry.data)[0].slice(start, stop - start)

    def _matrix(self, entry: Entry, table: pa.Table, name: str) -> np.ndarray:
        """`[L, n]` of a column of numbers, or of lists of as many as its feature has."""
        column = table[name].combine_chunks()
        while pa.types.is_list(column.type) or pa.types.is_fixed_size_list(column.type) \
                or pa.types.is_large_list(column.type):  # fmt: skip
            column = column.flatten()
        feature = self.index.features.get(name, {"shape": (1,)})
        shape = len(table), int(np.prod(feature["shape"], dtype=int))
        entries = len(column) - column.null_count
        if not pa.types.is_primitive(column.type) or entries != shape[0] * shape[1]:
            raise damaged(
                entry.data,
                f"{name} of episode {entry.number} is {table[name].type}, with {entries} entries "
                f"in {shape[0]} rows; {INFO} says {shape[1]} numbers a row",
            )
        return column.to_numpy(zero_copy_only=False).reshape(shape)

    def _span(self, entry: Entry) -> tuple[int, int]:
        """First row of an episode in its file, and the one behind its last."""
        start, stop = self._numbers(entry.data)[1].get(entry.number, (0, 0))
        if stop - start != entry.length:
            raise damaged(
                entry.data,
                f"episode {entry.number} has {stop - start} rows behind each other, meta says "
                f"{entry.length}",
            )
        return start, stop

    def _read_numbers(self, file: Path) -> tuple[pa.Table, dict[int, tuple[int, int]]]:
        """All of a file but frames, and where the rows of each episode are."""
        judged = [SUCCESS] if SUCCESS in self.index.features else []
        own = ["episode_index", "task_index", "timestamp"]
        names = list(dict.fromkeys([*own, *judged, *self.mapping.columns]))
        table = read_columns(file, names).combine_chunks()
        with blaming(file):
            episodes = table["episode_index"].to_numpy()
            return table, {number: (start, stop) for number, start, stop in _equal(episodes)}


class Demonstrations(Sequence[Demonstration]):
    """Parts of a data set, read when asked for."""

    def __init__(self, of: LeRobotSet, parts: Sequence[Part]) -> None:
        self._of, self.parts = of, tuple(parts)

    def __len__(self) -> int:
        return len(self.parts)

    def __getitem__(self, index):  # type: ignore[no-untyped-def]
        """An int gives a :class:`Demonstration`, a slice a smaller sequence."""
        if isinstance(index, slice):
            return Demonstrations(self._of, self.parts[index])
        return self._of.read(self.parts[index])


def _equal(numbers: np.ndarray) -> Iterator[tuple[int, int, int]]:
    """(number, start, stop) of rows that follow each other with one number."""
    bounds = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
    for start, stop in pairwise(bounds):
        if stop > start:
            yield int(numbers[start]), start, stop
