"""Write demonstrations as a LeRobot data set, an episode at a time.

Each episode has files of its own (a table, a video a camera), and `meta/info.json`, which counts
them, is written last: a collection that is killed leaves a data set that opens with the episodes
that were finished. The table comes behind what is said of the episode, as LeRobot's reader takes
the rows of all tables, counted or not. v3.0 allows many episodes a file; one each is allowed too,
and needs no end.

The time between two steps is not known of an env: `fps` is 10, and time is counted in steps of it.
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
from rlcore_data_lerobot.index import FACTS, INFO, V3, Index, read_columns, read_index, version_of
from rlcore_data_lerobot.own import (
    ACTION,
    IMAGES,
    ROWS,
    STATE,
    require_own,
    write_facts,
)

FPS = 10
CHUNK = 1000  # files in a folder
DEFAULTS = ("timestamp", "frame_index", "episode_index", "index", "task_index")
LISTS = ("meta/episodes.jsonl", "meta/episodes_stats.jsonl")  # of v2.1
OF_VERSION = {
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
    version of that data set.

    Args:
        version: "v3.0" or "v2.1".
        images: store frames losslessly, as PNG in the tables, instead of videos.

    For the others see :class:`rlcore.demonstrations.datasets.DatasetFormat`.

    Raises:
        ConfigError: the folder holds a data set made with other settings, or other files.
        CheckpointError: it holds a damaged one, or one that rlcore did not write.
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
        self.path, self._version, self._images = path, version, images
        self._info = DataInfo.of_collection(spec, collect, seed, interpreters)
        self._rows: list[EpisodeRow] = []
        self._sentences: list[str] = []
        self._stats: list[dict[str, stats.Stats]] = []
        self._frames = 0
        if version_of(path) is None and not (path / FACTS).is_file():
            check_empty(path)
            self._features = self._described(spec)
            write_facts(path, self._info, complete=False)
            self._begin()
        else:
            self._go_on()

    @staticmethod
    def check_same(path: Path, spec: EnvSpec, collect: CollectConfig, *, seed: int) -> None:
        """Check that a data set can be continued with these settings; raises like the class."""
        own = require_own(path, _index(path))
        check_same_settings(path, own.info, DataInfo.of_collection(spec, collect, seed))

    def episodes(self) -> set[Episode]:
        """Return the addresses of the episodes on disk, without their group."""
        return {row.episode for row in self._rows}

    def add(self, demonstration: Demonstration) -> None:
        """Write one episode, which the env worker has checked.

        Raises:
            ValueError: it is already there.
            ConfigError: it has not a frame before each step.
            CheckpointError: it can't be written, as the disk is full.
        """
        length = len(demonstration.actions)
        require_new(demonstration.episode, self.episodes(), self.path)
        if len(demonstration.frame_steps) != length and demonstration.frames:
            raise ConfigError(
                f"a LeRobot data set has a frame for each row, and the episode has "
                f"{len(demonstration.frame_steps)} of {length} steps",
                hint="set collect.stride=1",
            )
        number, sentence = len(self._rows), demonstration.instruction
        known = sentence in self._sentences
        if not known:
            self._sentences.append(sentence)
        columns = self._columns(demonstration, number, self._sentences.index(sentence))
        data = self.path / self._place("data", number)
        with writing_episode(data):
            if not known:
                self._write_sentences()
            found = {name: stats.of_numbers(_rows_by(value)) for name, value in columns.items()}
            for name, frames in demonstration.frames.items():
                found[IMAGES + name] = stats.of_frames(frames)
                if not self._images:
                    movie = self.path / self._place("video", number, IMAGES + name)
                    with atomic_write(movie) as partial:
                        video.encode(partial, frames, FPS)
            file = str(data.relative_to(self.path))
            row = EpisodeRow.of(demonstration, self._info.tasks, file)
            self._write_row(row, number, found)
            pictures = demonstration.frames if self._images else {}
            _write_table(_table(columns, pictures), data)
            self._rows.append(row)
            self._stats.append(found)
            self._frames += length
            self._conclude()

    def close(self) -> None:
        """Mark the collection as complete."""
        write_facts(self.path, self._info, complete=True)

    # -- what there is ------------------------------------------------------------------------

    def _go_on(self) -> None:
        index = _index(self.path)
        own = require_own(self.path, index)
        check_same_settings(self.path, own.info, self._info)
        write_facts(self.path, self._info, complete=False)
        self._rows = list(own.rows)
        if index is None:  # it was killed at its very first files
            self._features = self._described(None)
            return self._begin()
        self._version = index.version
        self._features = dict(read_mapping(self.path / INFO)["features"])
        self._images = any(feature["dtype"] == "image" for feature in self._features.values())
        self._sentences = [text for _, text in sorted(index.sentences.items())]
        self._frames = sum(row.length for row in self._rows)
        self._stats = self._written_stats(len(self._rows))
        self._shorten_lists()

    def _written_stats(self, count: int) -> list[dict[str, stats.Stats]]:
        """Read the statistics of the first `count` episodes on disk."""
        found: list[dict[str, stats.Stats]] = []
        if self._version not in V3:
            lines = list(read_lines(self.path / "meta/episodes_stats.jsonl"))[:count]
            for line in lines:
                with damaged_on(self.path / "meta/episodes_stats.jsonl"):
                    one = parse_json(line)["stats"]
                    found.append({k: _arrays(v) for k, v in one.items()})
            return found
        for number in range(count):
            file = self.path / _META.format(number // CHUNK, number % CHUNK)
            row = read_columns(file).to_pylist()[0]
            one = dict[str, dict[str, Any]]()
            for column, value in row.items():
                if column.startswith("stats/"):
                    key, _, name = column.removeprefix("stats/").rpartition("/")
                    one.setdefault(key, {})[name] = value
            found.append({key: _arrays(value) for key, value in one.items()})
        return found

    # -- files --------------------------------------------------------------------------------

    def _described(self, spec: EnvSpec | None) -> dict[str, Any]:
        """`features` of the description."""
        features: dict[str, Any] = {}
        for name, (height, width) in self._info.cameras.items():
            feature: dict[str, Any] = {
                "dtype": "image" if self._images else "video",
                "shape": [height, width, 3],
                "names": ["height", "width", "channels"],
            }
            if not self._images:
                feature["info"] = video.about(FPS, height, width)
            features[IMAGES + name] = feature
        for key, channels in ((STATE, self._info.states), (ACTION, self._info.actions)):
            names = [
                f"{channel['meaning']}.{entry}" if channel["size"] > 1 else channel["meaning"]
                for channel in channels
                for entry in range(channel["size"])
            ]
            if names:
                features[key] = {"dtype": "float32", "shape": [len(names)], "names": names}
        one: dict[str, Any] = {"shape": [1], "names": None}
        features["next.done"] = {"dtype": "bool", **one}
        features["next.success"] = {"dtype": "bool", **one}
        for name in DEFAULTS:
            features[name] = {"dtype": "float32" if name == "timestamp" else "int64", **one}
        return features

    def _columns(
        self, demonstration: Demonstration, number: int, task: int
    ) -> dict[str, np.ndarray]:
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
        return OF_VERSION[self._version][what].format(
            video_key=key,
            chunk_index=number // CHUNK,
            file_index=number % CHUNK,
            episode_chunk=number // CHUNK,
            episode_index=number,
        )

    def _write_sentences(self) -> None:
        numbers = list(range(len(self._sentences)))
        if self._version not in V3:
            lines = (
                json.dumps({"task_index": number, "task": text}, ensure_ascii=False)
                for number, text in enumerate(self._sentences)
            )
            return write_text(self.path / "meta/tasks.jsonl", "".join(f"{x}\n" for x in lines))
        table = pa.table(
            {
                "task_index": pa.array(numbers, pa.int64()),
                "task": pa.array(self._sentences, pa.string()),
            }
        )
        columns = [
            {
                "name": name,
                "field_name": name,
                "pandas_type": kind,
                "numpy_type": numpy,
                "metadata": None,
            }
            for name, kind, numpy in (
                ("task_index", "int64", "int64"),
                ("task", "unicode", "object"),
            )
        ]
        # LeRobot looks a sentence up in the frame's index, which pandas finds by this
        about = {"index_columns": ["task"], "column_indexes": [], "columns": columns}
        table = table.replace_schema_metadata({"pandas": json.dumps(about)})
        with atomic_write(self.path / "meta/tasks.parquet") as partial:
            pq.write_table(table, partial)

    def _write_row(self, row: EpisodeRow, number: int, found: dict[str, stats.Stats]) -> None:
        """Write the metadata of one episode."""
        if self._version not in V3:
            line: dict[str, Any] = {"episode_index": number}
            about = {**line, "tasks": [row.task_description], "length": row.length}
            _append(self.path / "meta/episodes_stats.jsonl", {**line, "stats": stats.plain(found)})
            _append(self.path / "meta/episodes.jsonl", about)
            return _append(self.path / ROWS, asdict(row))
        chunk, file = number // CHUNK, number % CHUNK
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
            at = f"videos/{IMAGES}{name}/"
            columns |= {at + "chunk_index": chunk, at + "file_index": file}
            columns |= {at + "from_timestamp": 0.0, at + "to_timestamp": row.length / FPS}
        for key, one in found.items():
            for name, value in one.items():
                columns[f"stats/{key}/{name}"] = value.tolist()
        _write_table(pa.Table.from_pylist([columns]), self.path / _META.format(chunk, file))
        _append(self.path / ROWS, asdict(row))

    def _begin(self) -> None:
        """Write an empty data set that LeRobot can open."""
        self._shorten_lists()
        self._write_sentences()
        self._conclude()

    def _shorten_lists(self) -> None:
        """Drop the lines of episodes that were not finished."""
        for name in ROWS, *(() if self._version in V3 else LISTS):
            file = self.path / name
            lines = list(read_lines(file))[: len(self._rows)] if file.exists() else []
            write_text(file, "".join(f"{line}\n" for line in lines))

    def _conclude(self) -> None:
        """Write the merged statistics, then the description, which makes the last episode count."""
        count = len(self._rows)
        if count:
            names = self._stats[0]
            of_all = {name: stats.merged([one[name] for one in self._stats]) for name in names}
            text = json.dumps(stats.plain(of_all), indent=1)
            write_text(self.path / "meta/stats.json", text + "\n")
        videos = 0 if self._images else len(self._info.cameras)
        info: dict[str, Any] = {
            "codebase_version": self._version,
            "robot_type": self._info.env,
            "total_episodes": count,
            "total_frames": self._frames,
            "total_tasks": len(self._sentences),
            "chunks_size": CHUNK,
            "fps": FPS,
            "splits": {"train": f"0:{count}"},
            "data_path": OF_VERSION[self._version]["data"],
            "video_path": OF_VERSION[self._version]["video"] if videos else None,
            "features": self._features,
        }
        if self._version in V3:
            info |= {"data_files_size_in_mb": 100, "video_files_size_in_mb": 200}
        else:
            chunks = -(-count // CHUNK)
            info |= {"total_videos": count * videos, "total_chunks": chunks}
        write_text(self.path / INFO, json.dumps(info, indent=1) + "\n")


_META = "meta/episodes/chunk-{:03d}/file-{:03d}.parquet"


def _index(path: Path) -> Index | None:
    """Of a data set that is to be continued; None while it has no episode."""
    if version_of(path) is None or not read_mapping(path / INFO).get("total_episodes"):
        return None
    return read_index(path)


def _table(columns: Mapping[str, np.ndarray], pictures: Mapping[str, np.ndarray]) -> pa.Table:
    """A table of one episode. HuggingFace's loader tells images by the note in its schema."""
    arrays, features = dict[str, pa.Array](), dict[str, Any]()
    for name, frames in pictures.items():
        cells = [{"bytes": video.png(one), "path": None} for one in frames]
        kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
        arrays[IMAGES + name] = pa.array(cells, kind)
        features[IMAGES + name] = {"_type": "Image"}
    for name, value in columns.items():
        array = pa.array(value.reshape(-1))
        plain = {"dtype": str(value.dtype), "_type": "Value"}
        if value.ndim > 1:
            size = value.shape[1]
            arrays[name] = pa.FixedSizeListArray.from_arrays(array, size)
            features[name] = {"feature": plain, "length": size, "_type": "Sequence"}
        else:
            arrays[name], features[name] = array, plain
    note = json.dumps({"info": {"features": features}})
    return pa.table(arrays).replace_schema_metadata({"huggingface": note})


def _write_table(table: pa.Table, file: Path) -> None:
    """Atomically; LeRobot's reader takes all that ends in .parquet, finished or not."""
    unfinished = file.with_suffix(".unfinished")
    with atomic_write(unfinished) as partial:
        pq.write_table(table, partial, compression="snappy")
    unfinished.replace(file)


def _rows_by(values: np.ndarray) -> np.ndarray:
    return values if values.ndim > 1 else values[:, None]


def _arrays(one: Mapping[str, Any]) -> stats.Stats:
    return {name: np.asarray(value) for name, value in one.items()}


def _append(file: Path, line: Mapping[str, Any]) -> None:
    """A line at once, so that a killed process leaves it whole or not at all."""
    file.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        os.write(descriptor, (json.dumps(line, ensure_ascii=False) + "\n").encode())
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
