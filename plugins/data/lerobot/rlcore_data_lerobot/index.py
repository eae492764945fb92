"""Read what a LeRobot data set says of itself: features, sentences, where each episode lies. Light.

    v3.0        meta/info.json, meta/tasks.parquet, meta/episodes/*/*.parquet
    v2.0, v2.1  meta/info.json, meta/tasks.jsonl, meta/episodes.jsonl

Sentences are read in either form, whatever the version: converters of others mix them.
Layouts: LeRobot 0.6.2 (`docs/source/lerobot-dataset-v3.mdx`, `src/lerobot/datasets`) and its tag
v0.3.3. No frame and no row of data is read here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rlcore.contracts.errors import CheckpointError
from rlcore.files.damaged_files import blaming, damaged, read_mapping
from rlcore.files.reading import POINTER, decode, open_regular, parse_json

INFO = "meta/info.json"
V2, V3 = ("v2.0", "v2.1"), ("v3.0",)
IMAGES = ("image", "video")


@dataclass(frozen=True)
class Clip:
    """Where the frames of an episode begin in a video: the file, and seconds from its start."""

    file: Path
    start: float


@dataclass(frozen=True)
class Entry:
    """An episode: its number, rows, and files; of features that are videos a clip."""

    number: int
    length: int
    data: Path
    clips: Mapping[str, Clip]


@dataclass(frozen=True)
class Index:
    """What a data set holds.

    Attributes:
        features: `{name: {"dtype", "shape", "names"}}`.
        sentences: by the number that rows give.
    """

    path: Path
    version: str
    fps: float
    features: Mapping[str, Mapping[str, Any]]
    sentences: Mapping[int, str]
    entries: tuple[Entry, ...]


def version_of(path: Path) -> str | None:
    """The version of the data set in a folder, as it says; None: it is none of LeRobot's.

    Raises:
        CheckpointError: its description is damaged.
    """
    if not (path / INFO).is_file():
        return None
    return str(read_mapping(path / INFO).get("codebase_version"))


def read_index(path: Path) -> Index:
    """Raises CheckpointError for a description that is missing, damaged, or of a version that is
    not known."""
    version = version_of(path)
    if version is None:
        raise CheckpointError(f"{path} is not a LeRobot data set: it has no {INFO}")
    if version not in V2 + V3:
        raise CheckpointError(
            f"{path} is a LeRobot data set of version {version}, read are {', '.join(V2 + V3)}",
            hint="convert it with the scripts of LeRobot (lerobot/scripts/convert_dataset_*)",
        )
    info = read_mapping(path / INFO)
    with blaming(path / INFO):
        fps, count = float(info["fps"]), int(info["total_episodes"])
        features = {str(name): dict(feature) for name, feature in info["features"].items()}
        for feature in features.values():
            feature["shape"] = tuple(int(size) for size in feature["shape"])
        template, of_videos = str(info["data_path"]), str(info.get("video_path"))
        chunk = int(info.get("chunks_size", 1000))
        if fps <= 0 or chunk <= 0:
            raise ValueError(f"fps {fps}, chunks_size {chunk}")
        videos = [name for name, feature in features.items() if feature["dtype"] == "video"]
    if version in V3:
        entries = _entries_of_tables(path, template, of_videos, videos)
    else:
        entries = _entries_of_lines(path, template, of_videos, videos, chunk)
    # the description is written last: a collection that was killed may have begun one more
    found = sorted(entries, key=lambda entry: entry.number)[:count]
    if len({entry.number for entry in found}) != count:
        listed = path / ("meta/episodes" if version in V3 else "meta/episodes.jsonl")
        raise damaged(listed, f"{INFO} says {count} episodes, here are {len(found)} of them")
    return Index(path, version, fps, features, _sentences(tasks_file(path, version)), tuple(found))


def read_columns(file: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """Columns of a parquet file; all if None.

    Raises:
        CheckpointError: it is missing or damaged, or lacks one.
    """
    with opened(file) as table:
        absent = [name for name in columns or () if name not in table.schema_arrow.names]
        if absent:
            raise ValueError(f"it has no column {absent[0]!r}")
        return table.read(columns=None if columns is None else list(columns))


def require(file: Path) -> None:
    """Raise CheckpointError for a file that is missing, or that Git LFS has not downloaded yet."""
    if not file.exists():
        raise CheckpointError(f"the data set is incomplete: {file} is missing")
    with blaming(file), open_regular(file) as stream:
        if stream.read(len(POINTER)) == POINTER:
            raise ValueError("it is a pointer of Git LFS: run git lfs pull in its folder")


@contextmanager
def opened(file: Path) -> Iterator[pq.ParquetFile]:
    """A parquet file. Raises CheckpointError for one that is missing or damaged."""
    require(file)
    with blaming(file, pa.ArrowException), open_regular(file) as stream:
        yield pq.ParquetFile(stream)


def tasks_file(path: Path, version: str) -> Path:
    """The file with the sentences: of the version, unless there is one of the others alone."""
    forms = ["meta/tasks.parquet", "meta/tasks.jsonl"][:: 1 if version in V3 else -1]
    return next((path / name for name in forms if (path / name).exists()), path / forms[0])


def _sentences(file: Path) -> dict[int, str]:
    """By number, from a table or from lines. A table is a frame of pandas whose index is the
    sentence; older files name it otherwise."""
    if file.suffix == ".jsonl":
        return {int(line["task_index"]): str(line["task"]) for line in _lines(file)}
    table = read_columns(file)
    with blaming(file):
        said = next(name for name in ("task", "__index_level_0__") if name in table.column_names)
        numbers, texts = table["task_index"].to_pylist(), table[said].to_pylist()
        return {int(number): str(text) for number, text in zip(numbers, texts, strict=True)}


def _entries_of_tables(
    path: Path, template: str, of_videos: str, videos: Sequence[str]
) -> list[Entry]:
    columns = ["episode_index", "length", "data/chunk_index", "data/file_index"]
    for key in videos:
        columns += [f"videos/{key}/{what}" for what in ("chunk_index", "file_index")]
        columns.append(f"videos/{key}/from_timestamp")
    entries = []
    for file in sorted(
        (path / "meta/episodes").glob("*/[!.]*.parquet")
    ):  # others were not finished
        rows = read_columns(file, columns).to_pylist()
        with blaming(file):
            for row in rows:
                clips = {}
                for key in videos:
                    at = f"videos/{key}/"
                    numbers = {name: row[at + name] for name in ("chunk_index", "file_index")}
                    video = _inside(path, of_videos.format(video_key=key, **numbers))
                    clips[key] = Clip(video, float(row[at + "from_timestamp"]))
                numbers = {name: row[f"data/{name}"] for name in ("chunk_index", "file_index")}
                data = _inside(path, template.format(**numbers))
                entries.append(_entry(row, data, clips))
    return entries


def _entries_of_lines(
    path: Path, template: str, of_videos: str, videos: Sequence[str], chunk: int
) -> list[Entry]:
    file, entries = path / "meta/episodes.jsonl", []
    for line in _lines(file):
        with blaming(file):
            number = int(line["episode_index"])
            names: dict[str, Any] = {"episode_index": number, "episode_chunk": number // chunk}
            clips = {
                key: Clip(_inside(path, of_videos.format(video_key=key, **names)), 0.0)
                for key in videos
            }
            entries.append(_entry(line, _inside(path, template.format(**names)), clips))
    return entries


def _entry(row: Mapping[str, Any], data: Path, clips: Mapping[str, Clip]) -> Entry:
    return Entry(int(row["episode_index"]), int(row["length"]), data, clips)


def _lines(file: Path) -> Iterator[dict[str, Any]]:
    with blaming(file), open_regular(file) as stream:
        for text in filter(None, map(bytes.strip, stream)):
            line = parse_json(decode(text))
            if not isinstance(line, dict):
                raise ValueError(f"a line is {type(line).__name__}, expected a mapping")
            yield line


def _inside(path: Path, name: str) -> Path:
    """A file of the data set; a name that leads out of its folder is refused."""
    parts = PurePosixPath(name)
    if parts.is_absolute() or ".." in parts.parts:
        raise ValueError(f"{name!r} leads out of the folder")
    return path / parts
