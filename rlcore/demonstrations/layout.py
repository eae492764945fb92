"""Define the files of a demonstration data set: JSON, parquet and safetensors, no pickle.

    info.json                       meaning of frames, states and actions; collection settings
    episodes.parquet                one row per episode: address, task, sentence, success, length
    data/episode_000000.safetensors frames/CAMERA uint8 [F, H, W, 3], frame_steps int64 [F],
                                    states float32 [L, S], actions float32 [L, A]

F frames, L steps, S entries of a state, A of an action. Each episode's file also holds its row as
metadata, so that the table of an interrupted collection can be rebuilt.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from rlcore.contracts.errors import CheckpointError
from rlcore.contracts.protocols import Demonstration
from rlcore.demonstrations.records import INFO, DataInfo, EpisodeRow, writing_episode
from rlcore.files.atomic import atomic_write, write_text
from rlcore.files.damaged_files import damaged_error, damaged_on, of_another_version, read_mapping
from rlcore.files.reading import parse_json
from rlcore.files.safetensors_header import TensorHeader, read_headers
from rlcore.files.typed import as_type
from rlcore.runs.env_facts import total_size
from rlcore.runs.parquet import read_rows, schema_of, write_rows

FORMAT = "rlcore-demonstrations"
FORMAT_VERSION = 2
EPISODES = "episodes.parquet"
DATA = "data"
EPISODE_FILE = "episode_{:06d}.safetensors"
EPISODE_FILES = "episode_*.safetensors"
FRAMES = "frames/"


def write_info(path: Path, info: DataInfo) -> None:
    """Write `info.json` atomically."""
    facts = {"format": FORMAT, "version": FORMAT_VERSION, **asdict(info)}
    write_text(path / INFO, json.dumps(facts, indent=1) + "\n")


def read_info(path: Path) -> DataInfo:
    """Read `info.json`.

    Raises:
        CheckpointError: `path` holds no data set, or one of another format or version.
    """
    if not path.is_dir():
        raise CheckpointError(
            f"there are no demonstrations at {path}", hint="make them: rlcore collect"
        )
    if not (path / INFO).is_file():
        raise CheckpointError(f"{path} is not a data set of demonstrations: it has no {INFO}")
    facts = read_mapping(path / INFO)
    with damaged_on(path / INFO):
        kind = facts.pop("format")
        version = facts.pop("version")
        if kind != FORMAT or version != FORMAT_VERSION:
            raise of_another_version(
                path / INFO, f"is {kind} {version}, this version reads {FORMAT} {FORMAT_VERSION}"
            )
        return as_type(DataInfo, facts)


def write_episode(path: Path, row: EpisodeRow, demonstration: Demonstration) -> None:
    """Write one episode to `path / row.file`, atomically.

    Raises:
        CheckpointError: the file can't be written, for example because the disk is full.
    """
    arrays: dict[str, np.ndarray] = {
        "frame_steps": demonstration.frame_steps.astype(np.int64),
        "states": demonstration.states.astype(np.float32),
        "actions": demonstration.actions.astype(np.float32),
        **{FRAMES + name: frames for name, frames in demonstration.frames.items()},
    }
    arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    file = path / row.file
    with writing_episode(file), atomic_write(file) as partial:
        save_file(arrays, partial, metadata={"row": json.dumps(asdict(row))})


def read_episode(path: Path, row: EpisodeRow, info: DataInfo) -> Demonstration:
    """Read one episode, with cameras in the order of the env.

    Raises:
        CheckpointError: the file is missing or damaged, or a state or action is not finite.
    """
    file = path / row.file
    if not file.exists():
        raise CheckpointError(f"{path} is incomplete: {row.file} is missing")
    read_headers(file)  # also refuses a pipe, which would block the read
    with damaged_on(file, SafetensorError):
        with safe_open(file, framework="numpy") as archive:
            arrays = {name: archive.get_tensor(name) for name in archive.keys()}  # noqa: SIM118
        steps, states, actions = (arrays.pop(k) for k in ("frame_steps", "states", "actions"))
        # policies expect the env's order of cameras; the file has the names sorted
        frames = {name: arrays[FRAMES + name] for name in info.cameras}
    for name, array in (("states", states), ("actions", actions)):
        bad = np.argwhere(~np.isfinite(array))
        if len(bad):
            step, entry = bad[0].tolist()
            raise damaged_error(
                file, f"{name} at step {step}, entry {entry} is {array[step, entry]}"
            )
    return Demonstration(
        episode=row.episode,
        instruction=row.task_description,
        frames=frames,
        frame_steps=steps,
        states=states,
        actions=actions,
        success=row.success,
    )


def check_episode(path: Path, row: EpisodeRow, info: DataInfo) -> None:
    """Check an episode's file by its header alone.

    Raises:
        CheckpointError: the file is missing or damaged, or its arrays differ in name, dtype or
            shape from the table and `info`.
    """
    stored = read_headers(path / row.file)
    steps = stored.get("frame_steps")
    frames = steps.shape if steps is not None else ()
    expected = {
        "frame_steps": TensorHeader("I64", frames[:1]),
        "states": TensorHeader("F32", (row.length, total_size(info.states))),
        "actions": TensorHeader("F32", (row.length, total_size(info.actions))),
        **{
            FRAMES + name: TensorHeader("U8", (*frames[:1], *size, 3))
            for name, size in info.cameras.items()
        },
    }
    for name in sorted(stored.keys() | expected.keys()):
        if stored.get(name) != expected.get(name):
            raise damaged_error(
                path / row.file, f"{name} is {stored.get(name)}, expected {expected.get(name)}"
            )


def number_of(row: EpisodeRow) -> int:
    """Return the number in the name of an episode's file."""
    return int(Path(row.file).stem.rpartition("_")[2])


def read_row(file: Path) -> EpisodeRow:
    """Return the row in the metadata of an episode's file. Raises CheckpointError if damaged."""
    read_headers(file)
    with damaged_on(file, SafetensorError), safe_open(file, framework="numpy") as archive:
        return as_type(EpisodeRow, parse_json(archive.metadata()["row"]))


def rows_of_files(path: Path) -> list[EpisodeRow]:
    """Return the rows of all episode files on disk, without reading the table."""
    return [read_row(file) for file in sorted((path / DATA).glob(EPISODE_FILES))]


def write_table(path: Path, rows: Sequence[EpisodeRow]) -> None:
    """Write `episodes.parquet` atomically."""
    write_rows(path / EPISODES, map(asdict, rows), schema_of(EpisodeRow))


def read_table(path: Path) -> list[EpisodeRow]:
    """Read the rows from the table, or from the episode files if an interrupted collection has no
    table."""
    table = path / EPISODES
    if not table.exists():
        return rows_of_files(path)
    return [EpisodeRow(**row) for row in read_rows(table, schema_of(EpisodeRow))]
