"""A small data set as others write them, by a description, for tests of what is read."""

from __future__ import annotations

import json

import av
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rlcore.config.schema import CollectConfig
from rlcore.contracts.specs import ActionChannel, CameraSpec, EnvSpec, StateChannel
from rlcore.demonstrations.datasets import format_of

KEY = "observation.images.top"
LENGTHS = (5, 4, 3)
SPEC = EnvSpec(
    name="kitchen",
    tasks=("lift",),
    instructions=("lift the pot",),
    train_trials=range(0, 9),
    heldout_trials=range(9, 20),
    cameras=(CameraSpec("front", 64, 96),),
    states=(StateChannel("joints", 2), StateChannel("gripper", 1)),
    actions=(
        ActionChannel("ee_delta_position", 2, convention="1 is 5 cm a step"),
        ActionChannel("gripper", 1, convention="+1 closes"),
    ),
    max_episode_steps=50,
)
DESCRIPTION = """\
data: pots
cameras:
  front: observation.images.top
states:
  joints: {from: "qpos[a, b]", scale: 1}
  gripper: {from: "qpos[2]", scale: 1}
actions:
  ee_delta_position: {from: "action[0:2]", scale: 20, convention: 1 is 5 cm a step}
  gripper: {from: "action[grip]", scale: -2, offset: 1, convention: +1 closes}
"""


def picture(number):
    """A grey of its own for each row of the data set."""
    return np.full((64, 96, 3), 40 + 15 * number, np.uint8)


def encode(file, numbers, codec, fps, picture=picture, options=None):
    file.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(file), "w", options=options) as out:
        quiet = {"x265-params": "log-level=none:keyint=16"} if codec == "libx265" else {}
        stream = out.add_stream(codec, rate=fps, options=quiet)
        stream.width, stream.height, stream.pix_fmt = 96, 64, "yuv420p"
        for number in numbers:
            out.mux(
                stream.encode(
                    av.VideoFrame.from_ndarray(
                        np.ascontiguousarray(picture(number)), format="rgb24"
                    )
                )
            )
        out.mux(stream.encode(None))


def rows(episodes, tasks, fps):
    """Numbers of episodes as others have them: radians, metres, 1 for an open gripper."""
    kinds = {
        "qpos": pa.list_(pa.float64()),
        "action": pa.list_(pa.float32()),
        "timestamp": pa.float32(),
        **dict.fromkeys(("frame_index", "episode_index", "index", "task_index"), pa.int64()),
    }
    found = {name: [] for name in kinds}
    for episode in episodes:
        first = sum(LENGTHS[:episode])
        for i in range(LENGTHS[episode]):
            found["qpos"].append([0.1 * i, 0.2 * i, float(episode)])
            found["action"].append([0.01 * i, -0.02, float(i % 2)])
            found["timestamp"].append(np.float32(i / fps))
            found["frame_index"].append(i)
            found["episode_index"].append(episode)
            found["index"].append(first + i)
            found["task_index"].append(tasks[episode][i])
    return pa.table({name: pa.array(found[name], kind) for name, kind in kinds.items()})


def foreign(path, version, codec="libx264", fps=30):
    """Three episodes; the second one changes its instruction after two rows."""
    tasks = [[0] * 5, [0, 0, 1, 1], [1] * 3]
    texts = ["lift the pot", "put it down"]
    instructions = [["lift the pot"], texts, ["put it down"]]
    key = KEY
    meta = path / "meta"
    meta.mkdir(parents=True)
    v3 = version == "v3.0"
    info = {
        "codebase_version": version,
        "robot_type": "arm",
        "fps": fps,
        "total_episodes": 3,
        "total_frames": 12,
        "total_tasks": 2,
        "chunks_size": 1000,
        "splits": {"train": "0:3"},
        "data_path": "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
        if v3
        else "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet",
        "video_path": "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"
        if v3
        else "videos/chunk-{episode_chunk:03d}/{video_key}/episode_{episode_index:06d}.mp4",
        "features": {
            key: {"dtype": "video", "shape": [64, 96, 3], "names": ["height", "width", "channel"]},
            "qpos": {"dtype": "float64", "shape": [3], "names": {"motors": ["a", "b", "c"]}},
            "action": {"dtype": "float32", "shape": [3], "names": ["x", "y", "grip"]},
        },
    }
    (meta / "info.json").write_text(json.dumps(info))
    (path / "data/chunk-000").mkdir(parents=True)
    if not v3:
        with (meta / "tasks.jsonl").open("w") as tasks_file:
            for number, text in enumerate(texts):
                print(json.dumps({"task_index": number, "task": text}), file=tasks_file)
        with (meta / "episodes.jsonl").open("w") as episodes_file:
            for number, length in enumerate(LENGTHS):
                one = {"episode_index": number, "tasks": instructions[number], "length": length}
                print(json.dumps(one), file=episodes_file)
        for number, length in enumerate(LENGTHS):
            first = sum(LENGTHS[:number])
            encode(
                path / f"videos/chunk-000/{key}/episode_{number:06d}.mp4",
                range(first, first + length),
                codec,
                fps,
            )
            pq.write_table(
                rows([number], tasks, fps), path / f"data/chunk-000/episode_{number:06d}.parquet"
            )
        return path
    # v3: all in one file and one video; an unnamed index, as older files have it
    pq.write_table(
        pa.table({"task_index": [0, 1], "__index_level_0__": texts}), meta / "tasks.parquet"
    )
    encode(path / f"videos/{key}/chunk-000/file-000.mp4", range(12), codec, fps)
    pq.write_table(rows(range(3), tasks, fps), path / "data/chunk-000/file-000.parquet")
    (meta / "episodes/chunk-000").mkdir(parents=True)
    listed = [
        {
            "episode_index": number,
            "tasks": instructions[number],
            "length": length,
            "data/chunk_index": 0,
            "data/file_index": 0,
            f"videos/{key}/chunk_index": 0,
            f"videos/{key}/file_index": 0,
            f"videos/{key}/from_timestamp": sum(LENGTHS[:number]) / fps,
        }
        for number, length in enumerate(LENGTHS)
    ]
    pq.write_table(pa.Table.from_pylist(listed), meta / "episodes/chunk-000/file-000.parquet")
    return path


def described(tmp_path, text=DESCRIPTION):
    file = tmp_path / "pots.yaml"
    file.write_text(text)
    return file


def changed_info(path, **changes):
    info = json.loads((path / "meta/info.json").read_text())
    (path / "meta/info.json").write_text(json.dumps({**info, **changes}))


def features_of(path):
    return json.loads((path / "meta/info.json").read_text())["features"]


def change_camera(path, **changes):
    """Change what the description of a data set says of its camera."""
    features = features_of(path)
    features[KEY] |= changes
    changed_info(path, features=features)


def change_tables(path, change):
    for file in sorted(path.glob("data/*/*.parquet")):
        pq.write_table(change(pq.read_table(file)), file)


def change_column(path, name, change, kind=None):
    def changed(table):
        column = pa.array(change(table[name].to_pylist()), kind)
        return table.set_column(table.column_names.index(name), name, column)

    change_tables(path, changed)


def learned_from(file):
    """All demonstrations of a set, of which none is held back."""
    return list(format_of(file).read(file).split(0.0, seed=0)[0])


def read(tmp_path, text=DESCRIPTION, spec=SPEC):
    """Every demonstration and its frames, after the checks that a run makes."""
    file = described(tmp_path, text)
    form = format_of(file)
    form.check_folder(file, spec, CollectConfig(), seed=0)
    learned = learned_from(file)
    return learned, [dict(demonstration.frames) for demonstration in learned]
