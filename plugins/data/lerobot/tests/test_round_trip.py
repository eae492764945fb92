"""What is written is read back: as LeRobot's files, and as demonstrations."""

from __future__ import annotations

import json
import os
import sys

import numpy as np
import pyarrow.parquet as pq
import pytest
from lerobot_cases import COLLECT, ERROR, SPEC, demonstration, everything, written
from rlcore_data_lerobot import formats
from rlcore_data_lerobot.video import encode

from rlcore.config.schema import CollectConfig
from rlcore.contracts.errors import CheckpointError, ConfigError
from rlcore.contracts.specs import Episode
from rlcore.demonstrations.datasets import format_of

ALL = [formats.LeRobotV3, formats.LeRobotV3Images, formats.LeRobotV21, formats.LeRobotV21Images]


@pytest.mark.parametrize("form", ALL)
def test_states_and_actions_are_equal_and_frames_nearly(form, tmp_path):
    made = [demonstration(1, 5), demonstration(0, 7, length=4), demonstration(0, 2, False)]
    written(form(), tmp_path / "d", made)
    assert isinstance(format_of(tmp_path / "d"), formats.LeRobotV3)
    form().check_folder(tmp_path / "d", SPEC, COLLECT, seed=1)
    data = format_of(tmp_path / "d").read(tmp_path / "d")
    assert (len(data), data.complete, data.facts.env) == (3, True, "desk")
    assert data.starts() == {("push", 5), ("reach", 7), ("reach", 2)}
    assert data.starts(successful=True) == {("push", 5), ("reach", 7)}
    data.check(SPEC)
    read = everything(data)  # without the one that failed
    assert [demo.episode for demo in read] == [Episode(0, 7), Episode(1, 5)]
    for demo, other in zip(read, [made[1], made[0]], strict=True):
        assert demo.instruction == other.instruction and demo.success
        np.testing.assert_array_equal(demo.states, other.states)
        np.testing.assert_array_equal(demo.actions, other.actions)
        np.testing.assert_array_equal(demo.frame_steps, other.frame_steps)
        assert demo.states.dtype == demo.actions.dtype == np.float32
        assert list(demo.frames) == ["wrist", "front"]
        for name, frames in demo.frames.items():
            off = np.abs(frames.astype(int) - other.frames[name]).max()
            assert off == 0 if form.images else off <= ERROR


def test_a_killed_collection_opens_and_goes_on(tmp_path, refused):
    for form in ALL:
        path = tmp_path / form.__name__
        with (
            pytest.raises(KeyboardInterrupt),
            form().write(path, SPEC, COLLECT, seed=1, interpreters=()) as writer,
        ):
            writer.add(demonstration(0, 0))
            writer.add(demonstration(1, 1))
            raise KeyboardInterrupt
        info = json.loads((path / "meta/info.json").read_text())
        rows = (path / "meta/rlcore_episodes.jsonl").read_text()
        if info["codebase_version"] == "v3.0":  # killed as it wrote a table
            (path / "meta/episodes/chunk-000/.partial-7-file-002.parquet").write_bytes(b"PAR1")
        data = format_of(path).read(path)
        assert (len(data), data.complete, info["total_episodes"]) == (2, False, 2)
        assert len(everything(data)) == 2
        # killed between the last file of an episode and the description
        info["total_episodes"], info["total_frames"] = 1, 7
        (path / "meta/info.json").write_text(json.dumps(info))
        assert len(everything(format_of(path).read(path))) == 1
        form().check_folder(path, SPEC, COLLECT, seed=1)
        with refused(ConfigError, "seed 1", "2", text=False):
            form().check_folder(path, SPEC, COLLECT, seed=2)
        # another form is asked for: it goes on with what is there
        with format_of(path).write(path, SPEC, COLLECT, seed=1, interpreters=()) as writer:
            assert writer.episodes() == {Episode(0, 0)}
            writer.add(demonstration(1, 1))
            writer.add(demonstration(1, 2))
            with pytest.raises(ValueError):
                writer.add(demonstration(1, 2))
        data = format_of(path).read(path)
        assert data.complete and [demo.episode.trial for demo in everything(data)] == [0, 1, 2]
        assert (path / "meta/rlcore_episodes.jsonl").read_text().startswith(rows)


@pytest.mark.long
def test_killed_before_the_first_episode(tmp_path):
    for form in ALL:
        with form().write(tmp_path / form.__name__, SPEC, COLLECT, seed=1, interpreters=()):
            pass
        path = tmp_path / form.__name__
        (path / "meta/info.json").unlink()
        form().check_folder(path, SPEC, COLLECT, seed=1)
        written(form(), path, [demonstration()])
        # and at its very first file
        first = tmp_path / f"{form.__name__}-first"
        (first / "meta").mkdir(parents=True)
        (first / "meta/.partial-7-rlcore.json").write_text("{")
        form().check_folder(first, SPEC, COLLECT, seed=1)
        written(form(), first, [demonstration()])
        assert len(format_of(path).read(path)) == 1


@pytest.mark.parametrize("form", [formats.LeRobotV3, formats.LeRobotV3Images])
def test_the_files_of_v3_by_lerobots_rules(form, tmp_path):
    written(form(), tmp_path, [demonstration(1, 5), demonstration(0, 7, length=4)])
    info = json.loads((tmp_path / "meta/info.json").read_text())
    kept = ("codebase_version", "fps", "total_episodes", "total_frames", "total_tasks")
    assert [info[name] for name in kept] == ["v3.0", 10, 2, 11, 2]
    assert info["splits"] == {"train": "0:2"} and info["chunks_size"] == 1000
    assert (info["data_files_size_in_mb"], info["video_files_size_in_mb"]) == (100, 200)
    assert info["data_path"] == "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
    features = info["features"]
    assert features["observation.state"] == {
        "dtype": "float32",
        "shape": [3],
        "names": [f"gripper position.{entry}" for entry in range(3)],
    }
    assert features["action"]["names"][-1] == "gripper"
    front = features["observation.images.front"]
    assert front["shape"] == [24, 32, 3] and front["names"] == ["height", "width", "channels"]
    assert features["next.success"]["dtype"] == "bool"

    tasks = pq.read_table(tmp_path / "meta/tasks.parquet")
    assert tasks["task"].to_pylist() == ["push the cube — now", "reach the cube — now"]
    assert json.loads(tasks.schema.metadata[b"pandas"])["index_columns"] == ["task"]

    row = pq.read_table(tmp_path / "meta/episodes/chunk-000/file-001.parquet").to_pylist()[0]
    assert (row["episode_index"], row["tasks"], row["length"]) == (1, ["reach the cube — now"], 4)
    assert (row["dataset_from_index"], row["dataset_to_index"]) == (7, 11)
    assert row["stats/observation.images.front/count"] == [4]
    assert np.shape(row["stats/observation.images.front/mean"]) == (3, 1, 1)
    table = pq.read_table(tmp_path / "data/chunk-000/file-001.parquet")
    assert table["index"].to_pylist() == [7, 8, 9, 10]
    assert table["frame_index"].to_pylist() == [0, 1, 2, 3]
    assert table["task_index"].to_pylist() == [1] * 4
    assert table["timestamp"].to_pylist() == [np.float32(i / 10) for i in range(4)]
    assert table["next.success"].to_pylist() == [False, False, False, True]
    video = tmp_path / "videos/observation.images.front/chunk-000/file-001.mp4"
    if form.images:
        assert front["dtype"] == "image" and info["video_path"] is None
        assert "observation.images.front" in table.column_names and not video.exists()
    else:
        key = "videos/observation.images.front/"
        assert front["dtype"] == "video" and front["info"]["video.codec"] == "av1"
        assert (row[key + "from_timestamp"], row[key + "to_timestamp"]) == (0.0, 0.4)
        assert video.is_file() and "observation.images.front" not in table.column_names


def test_the_files_of_v21_by_lerobots_rules(tmp_path):
    written(formats.LeRobotV21(), tmp_path, [demonstration(1, 5), demonstration(0, 7, length=4)])

    def lines(name):
        return [json.loads(line) for line in (tmp_path / "meta" / name).read_text().splitlines()]

    info = json.loads((tmp_path / "meta/info.json").read_text())
    kept = ("codebase_version", "total_videos", "total_chunks", "chunks_size")
    assert [info[name] for name in kept] == ["v2.1", 4, 1, 1000]
    assert lines("episodes.jsonl")[1] == {
        "episode_index": 1,
        "tasks": ["reach the cube — now"],
        "length": 4,
    }
    assert lines("tasks.jsonl")[0] == {"task_index": 0, "task": "push the cube — now"}
    stats = lines("episodes_stats.jsonl")[0]["stats"]["observation.images.wrist"]
    assert np.shape(stats["max"]) == (3, 1, 1) and stats["count"] == [7]
    # the blue entry is 90 + x + y, at most 90 + 15 + 15, of the frames before they are encoded
    assert stats["max"][2][0][0] == 120 / 255
    assert (tmp_path / "data/chunk-000/episode_000001.parquet").is_file()
    assert (tmp_path / "videos/chunk-000/observation.images.wrist/episode_000001.mp4").is_file()


def test_statistics_of_all_are_those_of_all_numbers(tmp_path):
    made = [demonstration(0, 0), demonstration(0, 1, length=3)]
    written(formats.LeRobotV3(), tmp_path, made)
    stats = json.loads((tmp_path / "meta/stats.json").read_text())
    actions = np.concatenate([demo.actions for demo in made]).astype(float)
    mine = stats["action"]
    np.testing.assert_allclose(mine["mean"], actions.mean(0))
    np.testing.assert_allclose(mine["std"], actions.std(0))
    np.testing.assert_array_equal(mine["min"], actions.min(0))
    assert mine["count"] == [10]
    frames = np.concatenate([demo.frames["front"] for demo in made]) / 255
    mine = stats["observation.images.front"]
    np.testing.assert_allclose(np.ravel(mine["mean"]), frames.mean((0, 1, 2)))
    np.testing.assert_allclose(np.ravel(mine["std"]), frames.std((0, 1, 2)))


def test_a_folder_with_other_files_is_not_written_to(tmp_path, refused):
    (tmp_path / "thesis.tex").write_text("precious")
    with refused(ConfigError, tmp_path):
        formats.LeRobotV3().check_folder(tmp_path, SPEC, COLLECT, seed=1)
    with refused(ConfigError, tmp_path):
        written(formats.LeRobotV3(), tmp_path, [])
    with refused(ConfigError, "collect.stride=1", "2"):
        formats.LeRobotV3().check_folder(tmp_path / "new", SPEC, CollectConfig(stride=2), seed=1)


@pytest.mark.quick(2)
@pytest.mark.parametrize("form", ALL)
def test_missing_and_damaged_files_are_refused_by_name(form, tmp_path, refused):
    written(form(), tmp_path, [demonstration(0, 0), demonstration(0, 1)])

    def read_all():
        form().check_folder(tmp_path, SPEC, COLLECT, seed=1)
        for each in everything(format_of(tmp_path).read(tmp_path)):
            dict(each.frames)

    read_all()
    # statistics are not read back, only a collection that goes on reads those of episodes, and
    # rlcore.json is next
    apart = ("stats.json", "episodes_stats.jsonl", "rlcore.json")
    for file in sorted(p for p in tmp_path.rglob("*") if p.is_file() and p.name not in apart):
        whole = file.read_bytes()
        file.write_bytes(whole[: len(whole) // 2])
        with refused(CheckpointError, file.name, text=False):
            read_all()
        file.unlink()
        if file.name != "info.json" and "episodes/chunk" not in str(file):
            with refused(CheckpointError, file.name, text=False):
                read_all()
        file.write_bytes(whole)
    read_all()
    (tmp_path / "meta/rlcore.json").unlink()
    with refused(ConfigError, tmp_path):
        read_all()


@pytest.mark.skipif(sys.platform != "linux", reason="no scheduling policies")
def test_an_encoder_leaves_the_priority_of_who_calls_it(tmp_path):
    """As root SVT-AV1 takes real-time priority for the calling thread and keeps it."""
    before = os.sched_getscheduler(0), os.sched_getparam(0)
    encode(tmp_path / "a.mp4", np.zeros((3, 64, 64, 3), np.uint8), 10)
    assert (os.sched_getscheduler(0), os.sched_getparam(0)) == before
