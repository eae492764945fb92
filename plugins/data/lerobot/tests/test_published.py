"""Data sets that others published: those of the source of `kalanos` 0.8.2 (Apache-2.0), a tool that
grades data sets. Three of a robot arm, in LeRobot's v2.0 and v3.0 with a video, in v2.1 without."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import av
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rlcore.config.schema import CollectConfig
from rlcore.contracts.errors import CheckpointError
from rlcore.contracts.specs import ActionChannel, CameraSpec, EnvSpec, StateChannel
from rlcore.demonstrations.datasets import format_of

SOURCE = "kalanos==0.8.2"
DESCRIPTION = """\
data: {name}
cameras: {cameras}
states:
  joints: {{from: "observation.state[0:5]", scale: 0.5}}
  gripper: {{from: "observation.state[gripper.pos]", scale: 1}}
actions:
  joint_position: {{from: observation.velocity, scale: 1, range: [-100, 100]}}
"""


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that they are in."""
    folder = tmp_path_factory.mktemp("published")
    subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "download",
            "-qq",
            "--no-deps",
            "--no-binary",
            "kalanos",
            "-d",
            folder,
            SOURCE,
        ],
        check=True,
        timeout=600,
    )
    with tarfile.open(next(folder.glob("*.tar.gz"))) as source:
        source.extractall(folder, filter="data")
    return next(folder.glob("kalanos-*/tests/fixtures"))


def read_as_env(sets: Path, name: str, cameras: int):  # type: ignore[no-untyped-def]
    """Its demonstrations, after the checks that a run makes."""
    file = sets / f"{name}.yaml"
    shown = "{up: observation.images.up}" if cameras else "{}"
    file.write_text(DESCRIPTION.format(name=name, cameras=shown))
    spec = EnvSpec(
        name="arm",
        tasks=("pick",),
        instructions=("pick up the cube",),
        train_trials=range(0, 9),
        heldout_trials=range(9, 20),
        cameras=(CameraSpec("up", 32, 32),)[:cameras],
        states=(StateChannel("joints", 5), StateChannel("gripper", 1)),
        actions=(ActionChannel("joint_position", 6, -100.0, 100.0),),
        max_episode_steps=50,
    )
    form = format_of(file)
    form.check_folder(file, spec, CollectConfig(), seed=0)
    data = form.read(file)
    data.check(spec)
    return list(data.split(0.0, seed=0)[0])


def bare(video: Path) -> list[np.ndarray]:
    """All frames, by PyAV alone."""
    with av.open(str(video)) as container:
        return [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "cameras", "lengths"),
    [
        ("lerobot_v2_0_tiny", 1, [8, 6]),
        ("lerobot_v2_1_tiny", 0, [5, 4]),
        ("lerobot_v3_tiny", 1, [8, 6]),
    ],
)
def test_published_sets_are_read(
    sets: Path, name: str, cameras: int, lengths: list[int], refused: Callable[..., Any]
) -> None:
    path = sets / name
    if name == "lerobot_v3_tiny":  # it lacks the table of instructions
        with refused(CheckpointError, "meta/tasks.parquet", text=False):
            read_as_env(sets, name, cameras)
        table = pa.table({"task_index": [0], "task": ["pick up the cube"]})
        pq.write_table(table, path / "meta/tasks.parquet")
    read = read_as_env(sets, name, cameras)
    assert [len(demo.actions) for demo in read] == lengths
    assert {demo.instruction for demo in read} == {"pick up the cube"}
    tables = [pq.read_table(file) for file in sorted(path.glob("data/*/*.parquet"))]
    states, velocities = (
        np.concatenate([np.stack(table[f"observation.{name}"].to_numpy()) for table in tables])
        for name in ("state", "velocity")
    )
    ours = np.concatenate([demo.states for demo in read])
    np.testing.assert_allclose(ours[:, :5], states[:, :5] * 0.5, rtol=1e-6)
    np.testing.assert_array_equal(ours[:, 5], states[:, 5])
    np.testing.assert_array_equal(np.concatenate([demo.actions for demo in read]), velocities)
    if cameras:
        videos = [frame for file in sorted(path.rglob("*.mp4")) for frame in bare(file)]
        frames = np.concatenate([demo.frames["up"] for demo in read])
        np.testing.assert_array_equal(frames, np.stack(videos))
