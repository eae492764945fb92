"""A collection that is killed, at each of its file operations: what is left opens, and goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from lerobot_cases import COLLECT, SPEC, demonstration, everything, written
from rlcore_data_lerobot import formats
from rlcore_data_lerobot.layout import V3

from rlcore.demonstrations.datasets import format_of

MADE = [demonstration(0, 0, length=3), demonstration(1, 1, length=4)]
OPERATIONS = ("open", "os.rename", "os.remove", "os.mkdir")
FORMS = (formats.LeRobotV3, formats.LeRobotV21)  # those of images write fewer files


def write_and_be_killed(form: formats.LeRobotV3, path: Path, operation: int) -> None:
    """In a process of its own: ended before an operation on a file of the data set."""
    if child := os.fork():
        os.waitpid(child, 0)
        return
    left = operation

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal left
        if event in OPERATIONS and str(arguments[0]).startswith(str(path)):
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)
    written(form, path, MADE)
    os._exit(0)


def kill_at_each(folder: Path) -> None:
    """Write what is left of collections into folders FORM/OPERATION."""
    for form in FORMS:
        for operation in range(1000):
            path = folder / form.__name__ / f"{operation:03d}"
            write_and_be_killed(form(), path, operation)
            facts = path / "meta/rlcore.json"
            if facts.is_file() and json.loads(facts.read_text())["complete"]:
                break


def by_lerobots_rules(path: Path) -> None:
    """What its readers need: rows of all tables belong to episodes that are described, whose
    videos are there, and the first ones are as many as the description says."""
    info = json.loads((path / "meta/info.json").read_text())
    count, v3 = info["total_episodes"], info["codebase_version"] in V3
    if v3:
        listed = sorted(path.glob("meta/episodes/*/*.parquet"))
        rows = [row for file in listed for row in pq.read_table(file).to_pylist()]
    else:
        lines = path / "meta/episodes.jsonl"
        rows = list(map(json.loads, lines.read_text().splitlines())) if lines.exists() else []
    data = [pq.read_table(file) for file in sorted(path.glob("data/*/*.parquet"))]
    numbers = [table["episode_index"].to_pylist() for table in data]
    lengths = {row["episode_index"]: row["length"] for row in rows}
    assert sorted(lengths) == list(range(len(rows))) and count <= len(data) <= len(rows)
    for number, each in enumerate(numbers):
        assert each == [number] * lengths[number]
        for key, feature in info["features"].items():
            if feature["dtype"] == "video":
                name = {
                    "video_key": key,
                    "chunk_index": 0,
                    "file_index": number,
                    "episode_chunk": 0,
                    "episode_index": number,
                }
                assert (path / info["video_path"].format(**name)).is_file()
    assert info["total_frames"] == sum(lengths[number] for number in range(count))
    if count:
        assert json.loads((path / "meta/stats.json").read_text())["action"]["count"][0] > 0


@pytest.mark.long
def test_a_killed_collection_opens_with_its_complete_episodes_and_goes_on(tmp_path: Path) -> None:
    # a fresh process forks, as this one may have threads
    command = "from test_kills import kill_at_each; from pathlib import Path; import sys; "
    command += "kill_at_each(Path(sys.argv[1]))"
    subprocess.run(
        [sys.executable, "-c", command, tmp_path],
        check=True,
        timeout=900,
        cwd=Path(__file__).parent,
    )
    for form in FORMS:
        before, folders = 0, sorted((tmp_path / form.__name__).iterdir())
        assert len(folders) > 30  # operations
        for path in folders:
            done = 0
            if (path / "meta/info.json").is_file():
                by_lerobots_rules(path)
                data = format_of(path).read(path)
                done = len(data)
                assert len(everything(data)) == done
                assert all(demo.frames["front"].any() for demo in everything(data))
            assert before <= done <= len(MADE)
            before = done
        assert before == len(MADE)
        for path in folders[:: len(folders) // 6]:
            form().check_folder(path, SPEC, COLLECT, seed=1)
            with form().write(path, SPEC, COLLECT, seed=1, interpreters=()) as writer:
                there = writer.episodes()
                for demo in MADE:
                    if demo.episode._replace(group=-1) not in there:
                        writer.add(demo)
            by_lerobots_rules(path)
            data = format_of(path).read(path)
            assert data.complete and len(everything(data)) == len(MADE)
