"""LeRobot's own reader and the rerun viewer open what is written here, each in an environment of
its own. LeRobot's finds our torch, numpy and PyAV, which decodes in place of torchvision."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path

import numpy as np
import pytest
from lerobot_cases import ERROR, demonstration, written
from rlcore_data_lerobot import formats

MADE = [demonstration(1, 5), demonstration(0, 7, length=9), demonstration(0, 2)]
LEROBOT = (
    "lerobot==0.4.4", "datasets==4.1.1", "dill==0.4.0", "multiprocess==0.70.16", "draccus==0.10.0",
    "mergedeep==1.3.4", "pyyaml-include==1.4.1", "typing-inspect==0.9.0", "mypy-extensions==1.2.0",
    "toml==0.10.2", "jsonlines==4.0.0", "einops==0.8.2", "deepdiff==9.1.0", "orderly-set==5.5.0",
    "pandas==2.3.3", "pytz==2026.6", "tzdata==2026.6", "python-dateutil==4.0.0",
)  # fmt: skip
READ = """
import sys
import types
from importlib.machinery import ModuleSpec

import av
import numpy as np
import torch


class VideoReader:
    def __init__(self, path, stream):
        self.container = av.open(str(path))
        self.stream = self.container.streams.video[0]

    def seek(self, seconds, keyframes_only=False):
        self.container.seek(int(seconds / self.stream.time_base), stream=self.stream)

    def __iter__(self):
        for frame in self.container.decode(self.stream):
            pixels = torch.from_numpy(frame.to_ndarray(format="rgb24"))
            yield {"data": pixels.permute(2, 0, 1), "pts": frame.time}


class ToTensor:
    def __call__(self, image):
        return torch.from_numpy(np.array(image)).permute(2, 0, 1).float() / 255


def module(name, **attributes):
    made = sys.modules[name] = types.ModuleType(name)
    made.__spec__ = ModuleSpec(name, None)
    made.__dict__.update(attributes)
    return made


functional = module("torchvision.transforms.v2.functional", Transform=object)
v2 = module("torchvision.transforms.v2", Transform=object, functional=functional)
transforms = module("torchvision.transforms", ToTensor=ToTensor, v2=v2)
io = module("torchvision.io", VideoReader=VideoReader)
module("torchvision", transforms=transforms, io=io, set_video_backend=lambda name: None)

from lerobot.datasets.lerobot_dataset import LeRobotDataset

data = LeRobotDataset("local/set", root=sys.argv[1], video_backend="pyav")
assert data.tolerance_s == 1e-4
items = [data[number] for number in range(len(data))]
names = [name for name in items[0] if name.startswith(("observation", "action", "next", "time"))]
found = {name: np.stack([np.asarray(one[name]) for one in items]) for name in names}
np.savez(sys.argv[2], task=np.array([one["task"] for one in items]), **found)
"""


def environment(folder: Path, *packages: str) -> Path:
    """Its interpreter."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    python = folder / "bin/python"
    subprocess.run([python, "-m", "pip", "install", "-qq", *packages], check=True, timeout=900)
    return python


@pytest.mark.long
def test_lerobots_own_reader_gives_what_was_written(tmp_path: Path) -> None:
    python = environment(tmp_path / "venv", "--no-deps", *LEROBOT)
    theirs = python.parent.parent / "lib" / f"python3.{sys.version_info[1]}" / "site-packages"
    (theirs / "ours.pth").write_text(sysconfig.get_path("purelib") + "\n")
    for form in (formats.LeRobotV3(), formats.LeRobotV3Images()):
        path, found = tmp_path / type(form).__name__, tmp_path / f"{type(form).__name__}.npz"
        written(form, path, MADE)
        said = subprocess.run(
            [python, "-c", READ, path, found], capture_output=True, text=True, timeout=300,
            env={"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "cache"), "PATH": "/bin"},
        )  # fmt: skip
        assert said.returncode == 0, said.stderr
        read = np.load(found)
        assert read["task"].tolist() == [one.task_description for one in MADE for _ in one.actions]
        np.testing.assert_array_equal(read["action"], np.concatenate([x.actions for x in MADE]))
        states = np.concatenate([one.states for one in MADE])
        np.testing.assert_array_equal(read["observation.state"], states)
        last = np.cumsum([len(one.actions) for one in MADE]) - 1
        assert np.flatnonzero(read["next.success"]).tolist() == last.tolist()
        for camera in ("wrist", "front"):
            frames = read[f"observation.images.{camera}"].transpose(0, 2, 3, 1) * 255
            wanted = np.concatenate([one.frames[camera] for one in MADE]).astype(float)
            assert np.abs(frames - wanted).max() <= (0.01 if form.images else ERROR)


@pytest.mark.long
def test_the_rerun_viewer_opens_the_folder(tmp_path: Path) -> None:
    """Each episode is a recording with the cameras' videos, the numbers and the sentence."""
    rerun = environment(tmp_path / "venv", "rerun-sdk==0.41.0").parent / "rerun"
    for form in (formats.LeRobotV3(), formats.LeRobotV21()):
        path = tmp_path / type(form).__name__
        written(form, path, MADE)
        saved = path.with_suffix(".rrd")
        said = ""
        for words in (["--save", saved, path], ["rrd", "stats", saved], ["rrd", "print", saved]):
            done = subprocess.run([rerun, *words], capture_output=True, text=True, timeout=120)
            assert done.returncode == 0, done.stderr
            said += done.stdout
        for name in ("/action", "/observation.state", "/observation.images.front",
                     "/observation.images.wrist", "/task", "VideoStream:codec",
                     "episode_0", "episode_1", "episode_2"):  # fmt: skip
            assert name in said, name
