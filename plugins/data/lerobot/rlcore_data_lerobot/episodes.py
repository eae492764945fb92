"""List the episodes of a LeRobot data set: numbers, lengths and files. No row is read."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rlcore_data_lerobot.layout import FACTS, INFO, V3, expand_template, path_inside
from rlcore_data_lerobot.parquet import open_parquet, read_columns
from rlcore_data_lerobot.values import (
    MAX_NUMBER,
    invalid_error,
    invalid_on,
    read_objects,
    whole_number,
)

MAX_SPARE_ROWS = 1 << 15
"""Rows that a list of episodes may have beyond twice the stated number."""
PLACES = ("chunk_index", "file_index")


@dataclass(frozen=True)
class Clip:
    """The part of a video file with an episode's frames.

    Attributes:
        start, stop: seconds of the video; `stop` is infinite if it is unknown.
    """

    file: Path
    start: float
    stop: float = math.inf


@dataclass(frozen=True)
class Entry:
    """An episode.

    Attributes:
        number: LeRobot's number of the episode (`episode_index`).
        length: number of rows.
        data: the file with its rows.
        clips: a clip for each video feature that the episode has.
    """

    number: int
    length: int
    data: Path
    clips: Mapping[str, Clip]


@dataclass(frozen=True)
class Info:
    """The values of `info.json` by which episodes are found.

    Attributes:
        count: number of episodes.
        data_path, video_path: path templates.
        videos: names of the video features.
        chunk_size: number of episodes in a folder of v2.
    """

    version: str
    count: int
    data_path: str
    video_path: str
    videos: Sequence[str]
    chunk_size: int


def read_entries(path: Path, info: Info) -> tuple[Entry, ...]:
    """Read the list of episodes, ordered by number.

    Raises:
        CheckpointError: the list is missing, damaged, invalid, or contradicts `info`.
    """
    read = _entries_of_tables if info.version in V3 else _entries_of_lines
    return tuple(_with_ends(_checked_entries(path, info, read(path, info))))


def _entries_of_tables(path: Path, info: Info) -> list[Entry]:
    """Read the episodes of v3.0 from parquet tables."""
    own = ["episode_index", "length", *(f"data/{name}" for name in PLACES)]
    entries: list[Entry] = []
    # files with names that begin with a dot were not finished
    for file in sorted((path / "meta/episodes").glob("*/[!.]*.parquet")):
        with open_parquet(file) as table:
            names = set(table.schema_arrow.names)
            rows = table.metadata.num_rows
        if len(entries) + rows > 2 * info.count + MAX_SPARE_ROWS:
            raise invalid_error(
                file,
                f"{INFO} says {info.count} episodes, here are {len(entries) + rows} of them",
                f"correct total_episodes of {INFO}",
            )
        video_columns = {
            key: [f"videos/{key}/{name}" for name in (*PLACES, "from_timestamp")]
            for key in info.videos
        }
        video_columns = {
            key: columns for key, columns in video_columns.items() if names.issuperset(columns)
        }
        ends = [f"videos/{key}/to_timestamp" for key in video_columns]
        columns = [*own, *(name for columns in video_columns.values() for name in columns)]
        columns += [name for name in ends if name in names]
        with invalid_on(file):
            for row in read_columns(file, columns).to_pylist():
                clips = {
                    key: _clip(path, info, file, key, row)
                    for key, columns in video_columns.items()
                    # an episode without the camera has nulls
                    if not any(_is_null(row[column]) for column in columns)
                }
                place = {name: whole_number(row[f"data/{name}"], name) for name in PLACES}
                data = path_inside(path, expand_template(info.data_path, place))
                entries.append(_entry(row, data, clips))
    return entries


def _clip(path: Path, info: Info, file: Path, key: str, row: Mapping[str, Any]) -> Clip:
    """Return the clip of the video feature `key` from a row of a table of episodes."""
    place = {name: whole_number(row[f"videos/{key}/{name}"], name) for name in PLACES}
    video = path_inside(path, expand_template(info.video_path, {"video_key": key, **place}))
    start = row[f"videos/{key}/from_timestamp"]
    if not isinstance(start, (int, float)) or not 0 <= start <= MAX_NUMBER:
        raise invalid_error(
            file,
            f"videos/{key}/from_timestamp of episode {row['episode_index']} is {start!r}, "
            "expected seconds from the start of the video",
            "correct the list of episodes, or convert the data set again",
        )
    stop = row.get(f"videos/{key}/to_timestamp")
    if not isinstance(stop, (int, float)) or not stop > start:
        stop = math.inf
    return Clip(video, float(start), float(stop))


def _is_null(value: Any) -> bool:
    """Return whether a value is missing as pandas writes it: null, or NaN among floats."""
    return value is None or value != value


def _entries_of_lines(path: Path, info: Info) -> list[Entry]:
    """Read the episodes of v2 from JSON lines."""
    file = path / "meta/episodes.jsonl"
    entries = []
    for line in read_objects(file):
        with invalid_on(file):
            number = whole_number(line["episode_index"], "episode_index")
            place = {"episode_index": number, "episode_chunk": number // info.chunk_size}
            clips = {}
            for key in info.videos:
                name = expand_template(info.video_path, {"video_key": key, **place})
                clips[key] = Clip(path_inside(path, name), 0.0)
            data = path_inside(path, expand_template(info.data_path, place))
            entries.append(_entry(line, data, clips))
    return entries


def _entry(row: Mapping[str, Any], data: Path, clips: Mapping[str, Clip]) -> Entry:
    number = whole_number(row["episode_index"], "episode_index")
    return Entry(number, whole_number(row["length"], "length"), data, clips)


def _checked_entries(path: Path, info: Info, entries: Sequence[Entry]) -> list[Entry]:
    """Return the episodes ordered by number, after comparing them with the stated number.

    Raises:
        CheckpointError: an episode is listed twice, or their number differs.
    """
    listed = path / ("meta/episodes" if info.version in V3 else "meta/episodes.jsonl")
    ordered = sorted(entries, key=lambda entry: entry.number)
    if (path / FACTS).is_file():
        # rlcore writes info.json last, so a killed collection may have listed one more episode
        ordered = [entry for entry in ordered if entry.number < info.count]
    counts = Counter(entry.number for entry in ordered)
    repeated = [number for number, times in counts.items() if times > 1]
    if repeated:
        raise invalid_error(
            listed,
            f"episode {repeated[0]} is listed {counts[repeated[0]]} times",
            "leave one line of each episode there",
        )
    if len(ordered) != info.count:
        raise invalid_error(
            listed,
            f"{INFO} says {info.count} episodes, here are {len(ordered)} of them",
            f"copy what is missing, or set total_episodes of {INFO} to {len(ordered)}",
        )
    return ordered


def _with_ends(entries: Sequence[Entry]) -> Iterator[Entry]:
    """Yield the episodes; a clip of unknown end stops where the next clip of its video starts."""
    starts: defaultdict[tuple[str, Path], set[float]] = defaultdict(set)
    for entry in entries:
        for key, clip in entry.clips.items():
            starts[key, clip.file].add(clip.start)
    ordered = {video: sorted(times) for video, times in starts.items()}
    for entry in entries:
        clips = {}
        for key, clip in entry.clips.items():
            times = ordered[key, clip.file]
            following = bisect_right(times, clip.start)
            if clip.stop == math.inf and following < len(times):
                clip = replace(clip, stop=times[following])
            clips[key] = clip
        yield replace(entry, clips=clips)
