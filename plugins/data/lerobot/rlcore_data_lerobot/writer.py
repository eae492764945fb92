"""Write demonstrations as a LeRobot data set, one episode at a time.

Each episode has its own files (a table, and a video for each camera). `meta/info.json`, which
counts the episodes, is written last, so a killed collection leaves a data set that opens with the
finished episodes. The table of an episode is written after its metadata, because LeRobot's reader
takes the rows of all tables, counted or not. v3.0 allows several episodes in a file, but a file for
each episode is complete as soon as the episode is.

An env does not state the time between two steps, so `fps` is 10.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rlcore.config.schema import CollectConfig
from rlcore.contracts.errors import ConfigError
from rlcore.contracts.protocols import Demonstration
from rlcore.contracts.specs import EnvSpec, Episode, OtherInterpreter
from rlcore.demonstrations.datasets import DatasetWriter
from rlcore.demonstrations.records import (
    DataInfo,
    EpisodeRow,
    check_empty,
    check_same_settings,
    require_new,
    writing_episode,
)
from rlcore.files.atomic import atomic_write, write_text
from rlcore.files.damaged_files import damaged_on, read_mapping
from rlcore.files.reading import parse_json, read_lines
from rlcore_data_lerobot import stats, video
from rlcore_data_lerobot.index import Index, read_index, version_of
from rlcore_data_lerobot.layout import FACTS, INFO, V3
from rlcore_data_lerobot.own import (
    ACTION,
    IMAGES,
    ROWS,
    STATE,
    require_own,
    write_facts,
)
from rlcore_data_lerobot.parquet import read_columns
from rlcore_data_lerobot.tables import episode_table, instruction_table, write_table

FPS = 10
CHUNK = 1000  # number of files in a folder
DEFAULTS = ("timestamp", "frame_index", "episode_index", "index", "task_index")
EPISODE_META = "meta/episodes/chunk-{:03d}/file-{:03d}.parquet"
V2_LISTS = ("meta/episodes.jsonl", "meta/episodes_stats.jsonl")
TEMPLATES = {
    "v3.0": {
        "data": "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet",
        "video": "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4",
    },
    "v2.1": {
        "data": "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet",
        "video": "videos/chunk-{episode_chunk:03d}/{video_key}/episode_{episode_index:06d}.mp4",
    },
}


class LeRobotWriter(DatasetWriter):
    """Adds episodes to a data set. An episode is on disk when :meth:`add` returns.

    If the folder holds a data set of the same env and settings, the writer continues it, in the
    version of that data set. For the other arguments see
    :meth:`rlcore.demonstrations.datasets.DatasetFormat.write`.

    Args:
        version: "v3.0" or "v2.1".
        images: store frames losslessly, as PNG in the tables, instead of videos.

    Raises:
        ConfigError: the folder holds a data set made with other settings, or other files.
        CheckpointError: the folder holds a damaged data set, or one that rlcore did not write.
    """

    def __init__(
        self,
        path: Path,
        spec: EnvSpec,
        collect: CollectConfig,
        *,
        seed: int,
        interpreters: Iterable[OtherInterpreter] = (),
        version: str = "v3.0",
        images: bool = False,
    ) -> None:
        self.path = path
        self._version = version
        self._images = images
        self._info = DataInfo.of_collection(spec, collect, seed, interpreters)
        self._rows: list[EpisodeRow] = []
        self._instructions: list[str] = []
        self._stats: list[dict[str, stats.Stats]] = []
        self._frames = 0
        if version_of(path) is None and not (path / FACTS).is_file():
            check_empty(path)
            write_facts(path, self._info, complete=False)
            self._begin()
        else:
            self._continue()

    @staticmethod
    def check_same(path: Path, spec: EnvSpec, collect: CollectConfig, *, seed: int) -> None:
        """Check that a data set can be continued with these settings.

        Raises:
            ConfigError, CheckpointError: see the class.
        """
        own = require_own(path, _index(path))
        check_same_settings(path, own.info, DataInfo.of_collection(spec, collect, seed))

    def episodes(self) -> set[Episode]:
        """Return the addresses of the episodes on disk, without their group."""
        return {row.episode for row in self._rows}

    def add(self, demonstration: Demonstration) -> None:
        """Write one episode, which the env worker has checked.

        Raises:
            ValueError: the data set already has this episode.
            ConfigError: the episode lacks the frame before a step.
            CheckpointError: a file can't be written, for example because the disk is full.
        """
        length = len(demonstration.actions)
        require_new(demonstration.episode, self.episodes(), self.path)
        if len(demonstration.frame_steps) != length and demonstration.frames:
            raise ConfigError(
                f"a LeRobot data set has a frame for each row, and the episode has "
                f"{len(demonstration.frame_steps)} of {length} steps",
                hint="set collect.stride=1",
            )
        number = len(self._rows)
        instruction = demonstration.instruction
        is_new = instruction not in self._instructions
        if is_new:
            self._instructions.append(instruction)
        columns = self._columns(demonstration, number, self._instructions.index(instruction))
        data = self.path / self._place("data", number)
        with writing_episode(data):
            if is_new:
                self._write_instructions()
            statistics = {
                name: stats.of_numbers(value if value.ndim > 1 else value[:, None])
                for name, value in columns.items()
            }
            for name, frames in demonstration.frames.items():
                statistics[IMAGES + name] = stats.of_frames(frames)
                if not self._images:
                    video_file = self.path / self._place("video", number, IMAGES + name)
                    with atomic_write(video_file) as partial:
                        video.encode(partial, frames, FPS)
            file = str(data.relative_to(self.path))
            row = EpisodeRow.of(demonstration, self._info.tasks, file)
            self._write_metadata(row, number, statistics)
            images = demonstration.frames if self._images else {}
            write_table(episode_table(columns, images), data)
            self._rows.append(row)
            self._stats.append(statistics)
            self._frames += length
            self._write_info()

    def close(self) -> None:
        """Mark the collection as complete."""
        write_facts(self.path, self._info, complete=True)

    def _continue(self) -> None:
        """Read the state of an interrupted collection."""
        index = _index(self.path)
        own = require_own(self.path, index)
        check_same_settings(self.path, own.info, self._info)
        write_facts(self.path, self._info, complete=False)
        self._rows = list(own.rows)
        if index is None:  # it was killed while it wrote its first files
            return self._begin()
        self._version = index.version
        self._features = dict(read_mapping(self.path / INFO)["features"])
        self._images = any(feature["dtype"] == "image" for feature in self._features.values())
        self._instructions = [text for _, text in sorted(index.instructions.items())]
        self._frames = sum(row.length for row in self._rows)
        self._stats = self._written_stats(len(self._rows))
        self._shorten_lists()

    def _written_stats(self, count: int) -> list[dict[str, stats.Stats]]:
        """Read the statistics of the first `count` episodes on disk."""
        if self._version not in V3:
            file = self.path / "meta/episodes_stats.jsonl"
            with damaged_on(file):
                lines = list(read_lines(file))[:count]
                contents = [parse_json(line)["stats"] for line in lines]
                return [
                    {key: _arrays(value) for key, value in content.items()} for content in contents
                ]
        episodes = []
        for number in range(count):
            file = self.path / EPISODE_META.format(number // CHUNK, number % CHUNK)
            row = read_columns(file).to_pylist()[0]
            content: dict[str, dict[str, Any]] = {}
            for column, value in row.items():
                if column.startswith("stats/"):
                    key, _, name = column.removeprefix("stats/").rpartition("/")
                    content.setdefault(key, {})[name] = value
            episodes.append({key: _arrays(value) for key, value in content.items()})
        return episodes

    def _describe_features(self) -> dict[str, Any]:
        """Return `features` of `info.json`."""
        features: dict[str, Any] = {}
        for name, (height, width) in self._info.cameras.items():
            feature: dict[str, Any] = {
                "dtype": "image" if self._images else "video",
                "shape": [height, width, 3],
                "names": ["height", "width", "channels"],
            }
            if not self._images:
                feature["info"] = video.video_info(FPS, height, width)
            features[IMAGES + name] = feature
        for key, channels in ((STATE, self._info.states), (ACTION, self._info.actions)):
            names = [
                f"{channel['meaning']}.{entry}" if channel["size"] > 1 else channel["meaning"]
                for channel in channels
                for entry in range(channel["size"])
            ]
            if names:
                features[key] = {"dtype": "float32", "shape": [len(names)], "names": names}
        scalar: dict[str, Any] = {"shape": [1], "names": None}
        features["next.done"] = {"dtype": "bool", **scalar}
        features["next.success"] = {"dtype": "bool", **scalar}
        for name in DEFAULTS:
            features[name] = {"dtype": "float32" if name == "timestamp" else "int64", **scalar}
        return features

    def _columns(
        self, demonstration: Demonstration, number: int, task: int
    ) -> dict[str, np.ndarray]:
        """Return the columns of an episode: numbers `[L]`, vectors `[L, n]`."""
        length = len(demonstration.actions)
        last = np.arange(length) == length - 1
        steps = np.arange(length, dtype=np.int64)
        columns = {
            STATE: demonstration.states.astype(np.float32),
            ACTION: demonstration.actions.astype(np.float32),
            "next.done": last,
            "next.success": last & bool(demonstration.success),
            "timestamp": (steps / FPS).astype(np.float32),
            "frame_index": steps,
            "episode_index": np.full(length, number, np.int64),
            "index": self._frames + steps,
            "task_index": np.full(length, task, np.int64),
        }
        return {name: value for name, value in columns.items() if name in self._features}

    def _place(self, what: str, number: int, key: str = "") -> str:
        """Return the path of an episode's "data" or "video" in the data set."""
        return TEMPLATES[self._version][what].format(
            video_key=key,
            chunk_index=number // CHUNK,
            file_index=number % CHUNK,
            episode_chunk=number // CHUNK,
            episode_index=number,
        )

    def _write_instructions(self) -> None:
        if self._version in V3:
            with atomic_write(self.path / "meta/tasks.parquet") as partial:
                pq.write_table(instruction_table(self._instructions), partial)
            return
        lines = (
            json.dumps({"task_index": number, "task": text}, ensure_ascii=False)
            for number, text in enumerate(self._instructions)
        )
        write_text(self.path / "meta/tasks.jsonl", "".join(f"{line}\n" for line in lines))

    def _write_metadata(
        self, row: EpisodeRow, number: int, statistics: dict[str, stats.Stats]
    ) -> None:
        """Write the metadata of one episode."""
        if self._version not in V3:
            line: dict[str, Any] = {"episode_index": number}
            episode = {**line, "tasks": [row.task_description], "length": row.length}
            _append(
                self.path / "meta/episodes_stats.jsonl",
                {**line, "stats": stats.to_lists(statistics)},
            )
            _append(self.path / "meta/episodes.jsonl", episode)
            return _append(self.path / ROWS, asdict(row))
        chunk, file = divmod(number, CHUNK)
        columns: dict[str, Any] = {
            "episode_index": number,
            "tasks": [row.task_description],
            "length": row.length,
            "data/chunk_index": chunk,
            "data/file_index": file,
            "dataset_from_index": self._frames,
            "dataset_to_index": self._frames + row.length,
            "meta/episodes/chunk_index": chunk,
            "meta/episodes/file_index": file,
        }
        for name in () if self._images else self._info.cameras:
            prefix = f"videos/{IMAGES}{name}/"
            columns |= {
                prefix + "chunk_index": chunk,
                prefix + "file_index": file,
                prefix + "from_timestamp": 0.0,
                prefix + "to_timestamp": row.length / FPS,
            }
        for key, feature_stats in statistics.items():
            for name, value in feature_stats.items():
                columns[f"stats/{key}/{name}"] = value.tolist()
        write_table(pa.Table.from_pylist([columns]), self.path / EPISODE_META.format(chunk, file))
        _append(self.path / ROWS, asdict(row))

    def _begin(self) -> None:
        """Write an empty data set that LeRobot can open."""
        self._features = self._describe_features()
        self._shorten_lists()
        self._write_instructions()
        self._write_info()

    def _shorten_lists(self) -> None:
        """Drop the lines of episodes that were not finished."""
        for name in ROWS, *(() if self._version in V3 else V2_LISTS):
            file = self.path / name
            lines = list(read_lines(file))[: len(self._rows)] if file.exists() else []
            write_text(file, "".join(f"{line}\n" for line in lines))

    def _write_info(self) -> None:
        """Write the merged statistics, then `info.json`, which makes the last episode count."""
        count = len(self._rows)
        if count:
            merged = {
                name: stats.merged([statistics[name] for statistics in self._stats])
                for name in self._stats[0]
            }
            text = json.dumps(stats.to_lists(merged), indent=1)
            write_text(self.path / "meta/stats.json", text + "\n")
        videos = 0 if self._images else len(self._info.cameras)
        info: dict[str, Any] = {
            "codebase_version": self._version,
            "robot_type": self._info.env,
            "total_episodes": count,
            "total_frames": self._frames,
            "total_tasks": len(self._instructions),
            "chunks_size": CHUNK,
            "fps": FPS,
            "splits": {"train": f"0:{count}"},
            "data_path": TEMPLATES[self._version]["data"],
            "video_path": TEMPLATES[self._version]["video"] if videos else None,
            "features": self._features,
        }
        if self._version in V3:
            info |= {"data_files_size_in_mb": 100, "video_files_size_in_mb": 200}
        else:
            chunks = -(-count // CHUNK)
            info |= {"total_videos": count * videos, "total_chunks": chunks}
        write_text(self.path / INFO, json.dumps(info, indent=1) + "\n")


def _index(path: Path) -> Index | None:
    """Return the index of a data set that is to be continued; None while it has no episode."""
    if version_of(path) is None or not read_mapping(path / INFO).get("total_episodes"):
        return None
    return read_index(path)


def _arrays(lists: Mapping[str, Any]) -> stats.Stats:
    return {name: np.asarray(values) for name, values in lists.items()}


def _append(file: Path, line: Mapping[str, Any]) -> None:
    """Append a JSON line by one write, so that a killed process leaves it complete or absent."""
    file.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        os.write(descriptor, (json.dumps(line, ensure_ascii=False) + "\n").encode())
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
