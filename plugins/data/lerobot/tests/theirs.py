"""Environments that have LeRobot, for tests of its own writer and readers.

LeRobot's finds our torch and PyAV, which decodes in place of torchvision.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path

DATASETS = {
    "0.3.3": ("datasets==3.6.0", "dill==0.3.8"),
    "0.4.4": ("datasets==4.1.1", "dill==0.4.0"),
}
"""What each version of LeRobot reads tables with."""
LEROBOT = (
    "multiprocess==0.70.16",
    "draccus==0.10.0",
    "mergedeep==1.3.4",
    "pyyaml-include==1.4.1",
    "typing-inspect==0.9.0",
    "mypy-extensions==1.2.0",
    "toml==0.10.2",
    "jsonlines==4.0.0",
    "einops==0.8.2",
    "deepdiff==9.1.0",
    "orderly-set==5.5.0",
    "pandas==2.3.3",
    "pytz==2026.6",
    "tzdata==2026.6",
    "python-dateutil==4.0.0",
    "numpy==2.2.6",
)
TORCHVISION = """
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
"""


def environment(folder: Path, *packages: str) -> Path:
    """Its interpreter."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    python = folder / "bin/python"
    subprocess.run([python, "-m", "pip", "install", "-qq", *packages], check=True)
    return python


def lerobot_python(folder: Path, version: str) -> Path:
    """The interpreter of a new environment that has a version of LeRobot."""
    python = environment(folder, "--no-deps", f"lerobot=={version}", *DATASETS[version], *LEROBOT)
    theirs = folder / "lib" / f"python3.{sys.version_info[1]}" / "site-packages"
    (theirs / "ours.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python


def run(python: Path, script: str, *arguments: object) -> None:
    """A script with LeRobot, with a torchvision that is put in its place."""
    home = str(python.parent / "cache")
    given = {"HF_HUB_OFFLINE": "1", "HF_HOME": home, "PATH": "/bin", "OMP_NUM_THREADS": "1"}
    command = [python, "-c", TORCHVISION + script, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env=given)
    assert done.returncode == 0, done.stderr
