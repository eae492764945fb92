"""Read the metadata of a LeRobot data set: features, sentences, files of each episode.

    v3.0        meta/info.json, meta/tasks.parquet, meta/episodes/*/*.parquet
    v2.0, v2.1  meta/info.json, meta/tasks.jsonl, meta/episodes.jsonl

Sentences (instructions) are read in either form, because some converters mix the versions.
Layouts: LeRobot 0.6.2 (`docs/source/lerobot-dataset-v3.mdx`, `src/lerobot/datasets`) and its tag
v0.3.3. No frame and no row of data is read here.

A data set may be untrusted: path templates are expanded by replacing names only, and a table
that would need far more memory than its file is refused.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rlcore.contracts.errors import CheckpointError, warn
from rlcore.files.damaged_files import damaged_on, read_mapping
from rlcore.files.reading import MAX_LINE_BYTES, POINTER, decode, open_regular, parse_json

INFO = "meta/info.json"
FACTS = "meta/rlcore.json"
"""rlcore's own records in a data set that it wrote."""
V2, V3 = ("v2.0", "v2.1"), ("v3.0",)
IMAGES = ("image", "video")
GROWTH, SMALL = 32, 32 << 20
"""Columns of a parquet file may take so many times their size in memory, and so many bytes in any
case: run lengths and dictionaries make a few bytes into any number of rows."""
LARGEST_NUMBER = 2**31 - 1
LONGEST_PATH = 1024
LARGEST_PICTURE = 1 << 26
"""Pixels of a frame: twice those of 8K."""
_FIELD = re.compile(r"\{(\w+)(?::(0?\d{0,2}d?))?\}")


@dataclass(frozen=True)
class Clip:
    """The part of a video file with an episode's frames, in seconds of the video; `stop` is
    infinite if it is unknown."""

    file: Path
    start: float
    stop: float = math.inf


@dataclass(frozen=True)
class Entry:
    """An episode: number, number of rows, data file, and a clip for each video feature that it
    has."""

    number: int
    length: int
    data: Path
    clips: Mapping[str, Clip]


@dataclass(frozen=True)
class Index:
    """The index of a data set.

    Attributes:
        features: `{name: {"dtype", "shape", "names"}}`.
        sentences: sentences by the `task_index` of rows; values may be other than text if invalid.
    """

    path: Path
    version: str
    fps: float
    features: Mapping[str, Mapping[str, Any]]
    sentences: Mapping[int, Any]
    entries: tuple[Entry, ...]


class Unfit(ValueError):
    """An invalid value in an undamaged file: another copy of the file would not help."""


def contradicted(file: Path, says: str, hint: str) -> CheckpointError:
    """Return the error for an undamaged file that is invalid or contradicts another file."""
    return CheckpointError(f"{file}: {says}", hint=hint)


@contextmanager
def judging(file: Path) -> Iterator[None]:
    """Raise CheckpointError for anything inside that can't be read (:func:`blaming`), and for what
    is read but :class:`Unfit`, which is no damage."""
    try:
        with damaged_on(file):
            yield
    except CheckpointError as error:
        if isinstance(error.__cause__, Unfit):
            says = str(error.__cause__)
            hint = "correct it there, or convert the data set again: the file itself is whole"
            raise contradicted(file, says, hint) from None
        raise


def version_of(path: Path) -> str | None:
    """Return the stated version of a data set; None if the folder is no LeRobot data set.

    Raises:
        CheckpointError: its description is damaged.
    """
    if not (path / INFO).is_file():
        return None
    return str(read_mapping(path / INFO).get("codebase_version"))


def read_index(path: Path) -> Index:
    """Read the description of a data set.

    Raises:
        CheckpointError: it is missing, damaged, contradicts itself, or is of a version that is not
            known.
    """
    version = version_of(path)
    if version is None:
        raise CheckpointError(f"{path} is not a LeRobot data set: it has no {INFO}")
    if version not in V2 + V3:
        raise CheckpointError(
            f"{path} is a LeRobot data set of version {version}, read are {', '.join(V2 + V3)}",
            hint="convert it with the scripts of LeRobot (lerobot/scripts/convert_dataset_*)",
        )
    info = read_mapping(path / INFO)
    with judging(path / INFO):
        fps = info["fps"]
        count = whole(info["total_episodes"], "total_episodes")
        frames = whole(info.get("total_frames") or 0, "total_frames")
        features = {str(name): _feature(name, one) for name, one in info["features"].items()}
        template, of_videos = str(info["data_path"]), str(info.get("video_path"))
        chunk = whole(info.get("chunks_size", 1000), "chunks_size")
        if chunk == 0:
            raise Unfit("chunks_size is 0")
        videos = [name for name, feature in features.items() if feature["dtype"] == "video"]
    if isinstance(fps, bool) or not isinstance(fps, (int, float)) or not 0 < fps <= LARGEST_NUMBER:
        raise contradicted(
            path / INFO,
            f"fps is {fps!r}, expected frames a second, a number above 0",
            "write the rate of the rows there",
        )
    if version in V3:
        entries = _entries_of_tables(path, template, of_videos, videos, count)
    else:
        entries = _entries_of_lines(path, template, of_videos, videos, chunk)
    entries = _counted(path, version, entries, count)
    length = sum(entry.length for entry in entries)
    if frames and frames != length:
        warn(
            f"{path / INFO} says total_frames {frames}, the episodes that are listed have "
            f"{length}: these are read"
        )
    entries = [replace(entry, clips=clips) for entry, clips in _ended(entries)]
    sentences = _sentences(tasks_file(path, version))
    return Index(path, version, float(fps), features, sentences, tuple(entries))


def _counted(path: Path, version: str, entries: Iterable[Entry], count: int) -> list[Entry]:
    """The episodes by their numbers, which are those that the description counts.

    Raises:
        CheckpointError: there are others.
    """
    listed = path / ("meta/episodes" if version in V3 else "meta/episodes.jsonl")
    found = sorted(entries, key=lambda entry: entry.number)
    if (path / FACTS).is_file():  # rlcore writes the description last: it may have been killed
        found = [entry for entry in found if entry.number < count]
    twice = [n for n, times in Counter(entry.number for entry in found).items() if times > 1]
    if twice:
        raise contradicted(
            listed,
            f"episode {twice[0]} is listed {sum(e.number == twice[0] for e in found)} times",
            "leave one line of each episode there",
        )
    if len(found) != count:
        raise contradicted(
            listed,
            f"{INFO} says {count} episodes, here are {len(found)} of them",
            f"copy what is missing, or set total_episodes of {INFO} to {len(found)}",
        )
    return found


def _ended(entries: Sequence[Entry]) -> Iterator[tuple[Entry, dict[str, Clip]]]:
    """Episodes and their clips; one that does not say where it ends does so where the next of its
    video begins."""
    starts: dict[tuple[str, Path], list[float]] = {}
    for entry in entries:
        for key, clip in entry.clips.items():
            starts.setdefault((key, clip.file), []).append(clip.start)
    in_order = {place: sorted(set(found)) for place, found in starts.items()}
    for entry in entries:
        clips = {}
        for key, clip in entry.clips.items():
            others = in_order[key, clip.file]
            behind = bisect_right(others, clip.start)
            if clip.stop == math.inf and behind < len(others):
                clip = replace(clip, stop=others[behind])
            clips[key] = clip
        yield entry, clips


def _feature(name: str, stated: Any) -> dict[str, Any]:
    """Return a feature with its shape checked and converted to a tuple."""
    feature = {**stated, "dtype": stated["dtype"]}
    feature["shape"] = tuple(whole(size, f"shape of {name}") for size in stated["shape"])
    return feature


def whole(value: Any, name: str) -> int:
    """A whole number from 0 to :data:`LARGEST_NUMBER`, which tables with gaps hold as a float.

    Raises:
        Unfit: it is none.
    """
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or not 0 <= value <= LARGEST_NUMBER or value != int(value):
        raise Unfit(f"{name} is {value!r}, expected a whole number of at least 0")
    return int(value)


def read_columns(file: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """Read columns of a parquet file; None reads all of them.

    Raises:
        CheckpointError: it is missing, damaged or larger than expected, or lacks a column.
    """
    with opened(file) as table:
        names = table.schema_arrow.names
        columns = names if columns is None else list(columns)
        absent = [name for name in columns if name not in names]
        if absent:
            raise ValueError(f"it has no column {absent[0]!r}")
        require_small(file, table, columns)
        return table.read(columns=columns)


def require_small(file: Path, table: pq.ParquetFile, columns: Sequence[str]) -> None:
    """Refuse to read columns that would grow far beyond what they have in the file.

    Raises:
        CheckpointError: they do.
    """
    meta = table.metadata
    names = sorted(table.schema_arrow.names, key=len, reverse=True)
    paths = [meta.schema.column(number).path for number in range(meta.num_columns)]
    roots = [
        next((name for name in names if path == name or path.startswith(f"{name}.")), "")
        for path in paths
    ]
    wanted = [number for number, root in enumerate(roots) if root in columns]
    size = stored = 0
    for group in range(meta.num_row_groups):
        for number in wanted:
            chunk = meta.row_group(group).column(number)
            stored += chunk.total_compressed_size
            size += max(chunk.total_uncompressed_size, 8 * chunk.num_values)
    if size > max(SMALL, GROWTH * stored):
        raise contradicted(
            file,
            f"{stored} bytes of it would become {size} in memory, in {meta.num_rows} rows",
            "tables of episodes do not grow like that: get the data set from elsewhere",
        )


def require(file: Path) -> None:
    """Raise CheckpointError for a file that is missing, or that Git LFS has not downloaded yet."""
    try:
        with damaged_on(file), open_regular(file) as stream:
            if stream.read(len(POINTER)) == POINTER:
                raise ValueError("it is a pointer of Git LFS: run git lfs pull in its folder")
    except CheckpointError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            raise CheckpointError(f"the data set is incomplete: {file} is missing") from None
        raise


@contextmanager
def opened(file: Path, *, texts: bool = False) -> Iterator[pq.ParquetFile]:
    """A parquet file. Raises CheckpointError for one that is missing or damaged.

    Args:
        texts: read those that are repeated once.
    """
    require(file)
    with damaged_on(file, pa.ArrowException), open_regular(file) as stream:
        names = pq.ParquetFile(stream).schema_arrow.names if texts else None
        stream.seek(0)
        yield pq.ParquetFile(stream, read_dictionary=names)


def tasks_file(path: Path, version: str) -> Path:
    """The file with the sentences: of the version, unless there is one of the others alone."""
    forms = ["meta/tasks.parquet", "meta/tasks.jsonl"][:: 1 if version in V3 else -1]
    return next((path / name for name in forms if (path / name).exists()), path / forms[0])


def _sentences(file: Path) -> dict[int, Any]:
    """Read the sentences by number, from a parquet table or from JSON lines.

    A table is a frame of pandas whose index is the sentence; older files name it otherwise, and
    those of others have names of their own: the only column of texts, and of whole numbers.
    """
    if file.suffix == ".jsonl":
        lines = list(_lines(file))
        if not lines:
            return {}  # a collection that was killed before its first episode
        names = dict.fromkeys(name for line in lines for name in line)
        columns = {name: [line.get(name) for line in lines] for name in names}
        kinds = {name: {type(v) for v in column} for name, column in columns.items()}
        texts = [name for name, kind in kinds.items() if kind <= {str, type(None)}]
        numbers = [name for name, kind in kinds.items() if kind == {int}]
    else:
        with opened(file, texts=True) as table:
            schema = table.schema_arrow
            texts = [one.name for one in schema if _is_text(one.type)]
            numbers = [one.name for one in schema if pa.types.is_integer(one.type)]
            require_small(file, table, schema.names)
            known = {"task", "task_index", *texts, *numbers} & set(schema.names)
            columns = {name: _shared(table.read(columns=[name])[name]) for name in sorted(known)}
    with judging(file):
        said = _only(file, "the sentences", columns, ("task",), texts)
        numbered = _only(file, "their numbers", columns, ("task_index",), numbers)
        found = dict[int, Any]()
        for number, text in zip(columns[numbered], columns[said], strict=True):
            at = whole(number, numbered)
            if at in found and found[at] != text:
                raise contradicted(
                    file,
                    f"number {at} has two sentences, {found[at]!r} and {text!r}",
                    "give each sentence a number of its own",
                )
            found[at] = text
    return found


def _only(
    file: Path, what: str, columns: Mapping[str, Any], names: Sequence[str], kind: Sequence[str]
) -> str:
    """The column with the sentences or their numbers: by its name, or the only one of its kind.

    Raises:
        CheckpointError: none is, or several may be.
    """
    for name in names:
        if name in columns:
            return name
    several = [name for name in kind if name == "__index_level_0__"] or kind
    if len(several) == 1:
        return several[0]
    there = ", ".join(map(repr, columns)) or "none"
    raise contradicted(
        file,
        f"which column has {what} is not clear, there are {there}",
        "name the columns task (the sentence) and task_index, as LeRobot does",
    )


def _is_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def _shared(column: pa.ChunkedArray) -> list[Any]:
    """Return the values of a column; equal texts share one object, which saves memory."""
    values: list[Any] = []
    for chunk in column.chunks:
        if pa.types.is_dictionary(chunk.type):
            texts = chunk.dictionary.to_pylist()
            values += [None if at is None else texts[at] for at in chunk.indices.to_pylist()]
        else:
            values += chunk.to_pylist()
    return values


def _entries_of_tables(
    path: Path, template: str, of_videos: str, videos: Sequence[str], count: int
) -> list[Entry]:
    places = ("chunk_index", "file_index")
    own = ["episode_index", "length", *(f"data/{name}" for name in places)]
    entries: list[Entry] = []
    # others were not finished
    for file in sorted((path / "meta/episodes").glob("*/[!.]*.parquet")):
        with opened(file) as table:
            there = set(table.schema_arrow.names)
            rows = table.metadata.num_rows
        if len(entries) + rows > 2 * count + SMALL // 1024:
            raise contradicted(
                file,
                f"{INFO} says {count} episodes, here are {len(entries) + rows} of them",
                f"correct total_episodes of {INFO}",
            )
        of_each = {
            key: [f"videos/{key}/{name}" for name in (*places, "from_timestamp")] for key in videos
        }
        of_each = {key: names for key, names in of_each.items() if there.issuperset(names)}
        ends = [f"videos/{key}/to_timestamp" for key in of_each]
        columns = [*own, *(name for names in of_each.values() for name in names)]
        columns += [name for name in ends if name in there]
        values = read_columns(file, columns).to_pydict()
        with judging(file):
            for row in range(rows):
                clips = {}
                for key, names in of_each.items():
                    numbers = [values[name][row] for name in names]
                    if any(_is_null(number) for number in numbers):
                        continue  # this episode lacks the camera
                    place = {name: whole(n, name) for name, n in zip(places, numbers, strict=False)}
                    video = _inside(path, expanded(of_videos, {"video_key": key, **place}))
                    start = _start(file, key, values, row, numbers[-1])
                    stop = values.get(f"videos/{key}/to_timestamp", {row: None})[row]
                    known = isinstance(stop, (int, float)) and stop > start
                    clips[key] = Clip(video, start, float(stop) if known else math.inf)
                number, length, *numbers = (values[name][row] for name in own)
                place = {name: whole(n, name) for name, n in zip(places, numbers, strict=True)}
                data = _inside(path, expanded(template, place))
                entries.append(_entry(number, length, data, clips))
    return entries


def _is_null(value: Any) -> bool:
    """Return whether a value is missing as pandas writes it: null, or NaN among floats."""
    return value is None or value != value


def _start(file: Path, key: str, values: Mapping[str, Any], row: int, start: Any) -> float:
    """Return the time at which an episode begins in a video, in seconds, after checking it."""
    if not isinstance(start, (int, float)) or not 0 <= start <= LARGEST_NUMBER:
        raise contradicted(
            file,
            f"videos/{key}/from_timestamp of episode {values['episode_index'][row]} is {start!r}, "
            "expected seconds from the start of the video",
            "correct the list of episodes, or convert the data set again",
        )
    return float(start)


def _entries_of_lines(
    path: Path, template: str, of_videos: str, videos: Sequence[str], chunk: int
) -> list[Entry]:
    file, entries = path / "meta/episodes.jsonl", []
    for line in _lines(file):
        with judging(file):
            number = whole(line["episode_index"], "episode_index")
            names = {"episode_index": number, "episode_chunk": number // chunk}
            clips = {
                key: Clip(_inside(path, expanded(of_videos, {"video_key": key, **names})), 0.0)
                for key in videos
            }
            data = _inside(path, expanded(template, names))
            entries.append(_entry(number, line["length"], data, clips))
    return entries


def _entry(number: Any, length: Any, data: Path, clips: Mapping[str, Clip]) -> Entry:
    return Entry(whole(number, "episode_index"), whole(length, "length"), data, clips)


def _lines(file: Path) -> Iterator[dict[str, Any]]:
    with damaged_on(file), open_regular(file) as stream:
        while text := stream.readline(MAX_LINE_BYTES + 1):
            if len(text) > MAX_LINE_BYTES:
                raise ValueError(f"a line is longer than {MAX_LINE_BYTES} bytes")
            if not text.strip():
                continue
            line = parse_json(decode(text))
            if not isinstance(line, dict):
                raise ValueError(f"a line is {type(line).__name__}, expected a mapping")
            yield line


def expanded(template: str, values: Mapping[str, int | str]) -> str:
    """A path, made from LeRobot's template by replacing these names: `{video_key}`, or
    `{file_index:03d}` of a whole number with at most 99 digits. Nothing else that Python formats.

    Raises:
        Unfit: the template has other names or formats.
    """

    def value(field: re.Match[str]) -> str:
        name, form = field.groups("")
        if name not in values or (form and isinstance(values[name], str)):
            raise Unfit(f"the path {template!r} has {field[0]}, known are {', '.join(values)}")
        return format(values[name], form)

    if len(template) > LONGEST_PATH:
        raise Unfit(f"a template of paths has {len(template)} letters, {LONGEST_PATH} at most")
    if re.search(r"[{}]", _FIELD.sub("", template)):
        raise Unfit(f"the path {template!r} has braces around more than a name and a width")
    return _FIELD.sub(value, template)


def _inside(path: Path, name: str) -> Path:
    """Return the path of a file; raises Unfit if it is outside of the data set's folder."""
    parts = PurePosixPath(name)
    if parts.is_absolute() or ".." in parts.parts:
        raise Unfit(f"{name!r} leads out of the folder")
    return path / parts
