"""LeRobot's own reader and the rerun viewer open what is written here, and what its own writers
record is learned from; each in an environment of its own."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from lerobot_cases import ERROR, demonstration, written
from rlcore_data_lerobot import formats
from theirs import environment, lerobot_python, run

from rlcore.cli.main import main

MADE = [demonstration(1, 5), demonstration(0, 7, length=9), demonstration(0, 2)]
READ_BY = {
    "0.3.3": (formats.LeRobotV21(), formats.LeRobotV21Images()),
    "0.4.4": (formats.LeRobotV3(), formats.LeRobotV3Images()),
}
READ = """
from lerobot.datasets.lerobot_dataset import LeRobotDataset

data = LeRobotDataset("local/set", root=sys.argv[1], video_backend="pyav")
assert data.tolerance_s == 1e-4
items = [data[number] for number in range(len(data))]
names = [name for name in items[0] if name.startswith(("observation", "action", "next", "time"))]
found = {name: np.stack([np.asarray(one[name]) for one in items]) for name in names}
np.savez(sys.argv[2], task=np.array([one["task"] for one in items]), **found)
"""
WRITE = """
import inspect

from lerobot.datasets.lerobot_dataset import LeRobotDataset

root, kind = sys.argv[1], sys.argv[2]
names = {"motors": ["motor_0", "motor_1"]}
features = {
    "observation.images.top": {"dtype": kind, "shape": (96, 96, 3),
                               "names": ["height", "width", "channel"]},
    "observation.images.wrist": {"dtype": kind, "shape": (3, 48, 64),
                                 "names": ["channels", "height", "width"]},
    "observation.state": {"dtype": "float32", "shape": (2,), "names": names},
    "observation.environment_state": {"dtype": "float32", "shape": (16,), "names": ["keypoints"]},
    "action": {"dtype": "float32", "shape": (2,), "names": names},
    "next.reward": {"dtype": "float32", "shape": (1,), "names": None},
    "next.done": {"dtype": "bool", "shape": (1,), "names": None},
    "next.success": {"dtype": "bool", "shape": (1,), "names": None},
    "note": {"dtype": "string", "shape": (1,), "names": None},
}
data = LeRobotDataset.create("local/pots", fps=10, features=features, root=root,
                             robot_type="pointer", use_videos=kind == "video")
apart = "task" in inspect.signature(data.add_frame).parameters
# several files in a chunk, and several chunks
data.meta.info |= {"chunks_size": 2} | ({} if apart else {
    "data_files_size_in_mb": 0.003, "video_files_size_in_mb": 0.01})
draw = np.random.default_rng(0)
y, x = np.mgrid[:96, :96]
for episode in range(6):
    text, goal = [("reach the left side", -0.7), ("reach the right side", 0.7)][episode % 2]
    place, length = draw.uniform(-0.5, 0.5, 2), int(draw.integers(8, 14))
    for step in range(length):
        action = np.clip((np.array([goal, 0]) - place) * 5, -1, 1)
        picture = np.stack([60 + x + step, 60 + y, 0 * x + 9 * step], -1).astype(np.uint8)
        frame = {
            "observation.images.top": picture,
            "observation.images.wrist": picture[:48, :64].copy(),
            "observation.state": (256 + 256 * place).astype(np.float32),  # in pixels
            "observation.environment_state": draw.normal(size=16).astype(np.float32),
            "action": (action * 0.05).astype(np.float32),
            "next.reward": np.array([step / length], np.float32),
            "next.done": np.array([step == length - 1]),
            "next.success": np.array([step == length - 1 and episode != 3]),
            "note": "as it came",
        }
        data.add_frame(frame, text) if apart else data.add_frame({**frame, "task": text})
        place = place + action * 0.05
    data.save_episode()
apart or data.finalize()
"""
DESCRIPTION = """\
data: {}
cameras:
  top: {{from: observation.images.top, size: [16, 16]}}
states:
  position: {{from: "observation.state[motor_0, motor_1]", scale: 0.00390625, offset: -1}}
actions:
  ee_delta_position: {{from: action, scale: 20}}
"""


@pytest.fixture(scope="module")
def lerobot(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The interpreter of an environment that has a version of LeRobot, made once."""

    @cache
    def made(version: str) -> Path:
        return lerobot_python(tmp_path_factory.mktemp(f"lerobot-{version}"), version)

    return made


@pytest.mark.long
@pytest.mark.parametrize("version", READ_BY)
def test_lerobots_reader_returns_the_written_episodes(
    tmp_path: Path, lerobot: Callable[[str], Path], version: str
) -> None:
    python = lerobot(version)
    for form in READ_BY[version]:
        path, found = tmp_path / type(form).__name__, tmp_path / f"{type(form).__name__}.npz"
        written(form, path, MADE)
        run(python, READ, path, found)
        read = np.load(found)
        assert read["task"].tolist() == [demo.instruction for demo in MADE for _ in demo.actions]
        np.testing.assert_array_equal(read["action"], np.concatenate([x.actions for x in MADE]))
        states = np.concatenate([demo.states for demo in MADE])
        np.testing.assert_array_equal(read["observation.state"], states)
        last = np.cumsum([len(demo.actions) for demo in MADE]) - 1
        assert np.flatnonzero(read["next.success"]).tolist() == last.tolist()
        for camera in ("wrist", "front"):
            frames = read[f"observation.images.{camera}"].transpose(0, 2, 3, 1) * 255
            wanted = np.concatenate([demo.frames[camera] for demo in MADE]).astype(float)
            assert np.abs(frames - wanted).max() <= (0.01 if form.images else ERROR)


def losses(data: Path) -> list[float]:
    """Of five steps of supervised training on a data set."""
    file = data.with_suffix(".yaml")
    file.write_text(DESCRIPTION.format(data.name))
    settings = (
        "env=toy",
        "env.train.tasks=[reach-left,reach-right]",
        "env.train.total_num_envs=2",
        "env.eval.total_num_envs=2",
        "env.eval.trials_per_task=1",
        "model=toy",
        "algorithm=ppo",
        f"collect.path={file}",
        "cluster.backend=local",
        "sft.max_steps=5",
        "sft.val_fraction=0.4",
        "runner.seed=1",
        "runner.logger.logger_backends=[]",
        f"runner.logger.log_path={data.parent}/logs",
        f"runner.logger.experiment_name={data.name}",
    )
    assert main(["sft", *settings]) == 0
    history = json.loads((data.parent / "logs" / data.name / "sft.json").read_text())
    return [loss for _, loss in history["train_loss"]]


@pytest.mark.long
def test_data_of_lerobots_writers_is_learned_from(
    tmp_path: Path, lerobot: Callable[[str], Path]
) -> None:
    """Versions 2.1 and 3.0, and 2.0, which keeps statistics elsewhere; then without an episode."""
    for name, version in {"v21": "0.3.3", "v3": "0.4.4"}.items():
        for kind in ("image", "video"):
            run(lerobot(version), WRITE, tmp_path / f"{name}_{kind}", kind)
    assert len(list((tmp_path / "v3_image").glob("data/*/*.parquet"))) > 2
    wanted = losses(tmp_path / "v21_image")
    assert losses(tmp_path / "v3_image") == wanted
    for name in ("v21_video", "v3_video"):  # the same samples, of frames that AV1 changed
        np.testing.assert_allclose(losses(tmp_path / name), wanted, rtol=0.01)
    older = shutil.copytree(tmp_path / "v21_image", tmp_path / "v20_image")
    (older / "meta/episodes_stats.jsonl").unlink()

    def changed(**entries: object) -> None:
        info = json.loads((older / "meta/info.json").read_text())
        (older / "meta/info.json").write_text(json.dumps(info | entries))

    changed(codebase_version="v2.0")
    assert losses(older) == wanted
    lines = (older / "meta/episodes.jsonl").read_text().splitlines(keepends=True)
    (older / "meta/episodes.jsonl").write_text("".join([*lines[:2], *lines[3:]]))
    (older / "data/chunk-001/episode_000002.parquet").unlink()
    changed(total_episodes=5)
    fewer = losses(older.rename(tmp_path / "gap_image"))
    assert fewer != wanted and np.isfinite(fewer).all()


@pytest.mark.long
def test_the_rerun_viewer_opens_the_folder(tmp_path: Path) -> None:
    """Each episode is a recording with the cameras' videos, the numbers and the sentence."""
    rerun = environment(tmp_path / "venv", "rerun-sdk==0.41.0").parent / "rerun"
    for form in (formats.LeRobotV3(), formats.LeRobotV21()):
        path = tmp_path / type(form).__name__
        written(form, path, MADE)
        saved = path.with_suffix(".rrd")
        printed = ""
        for words in (["--save", saved, path], ["rrd", "stats", saved], ["rrd", "print", saved]):
            done = subprocess.run([rerun, *words], capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            printed += done.stdout
        for name in (
            "/action",
            "/observation.state",
            "/observation.images.front",
            "/observation.images.wrist",
            "/task",
            "VideoStream:codec",
            "episode_0",
            "episode_1",
            "episode_2",
        ):
            assert name in printed, name
