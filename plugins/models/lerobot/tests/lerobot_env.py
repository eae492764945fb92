"""An environment that has LeRobot and its policies beside ours.

torchvision of a package index is built for CUDA, so beside a torch for CPUs its operators are
missing. ACT and Diffusion need its Python code alone, which two declared operators let import.
"""

from __future__ import annotations

import subprocess
import sysconfig
from pathlib import Path

from theirs import lerobot_python

VERSION = "0.4.4"
PACKAGES = (
    "transformers==4.57.3",
    "huggingface_hub==0.35.3",
    "tokenizers==0.22.1",
    "deepdiff==8.6.1",
    "diffusers==0.35.2",
    "accelerate==1.10.1",
    "importlib-metadata==8.7.0",
    "zipp==3.23.0",
    "pyserial==3.5",
    "torchvision==0.28.0",
)
"""What LeRobot 0.4.4 imports for its policies, at versions that it admits where we have others."""
OPERATORS = """

if not _has_ops():
    _declared = torch.library.Library("torchvision", "DEF")
    for _name in ("nms", "qnms"):
        _declared.define(f"{_name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
"""


def policies_python(folder: Path) -> Path:
    """The interpreter of a new environment with LeRobot, its policies, rlcore and its plugins."""
    python = lerobot_python(folder, VERSION)
    pip = [python, "-m", "pip", "install", "-qq", "--no-deps"]
    subprocess.run([*pip, *PACKAGES], check=True)
    (packages,) = folder.glob("lib/python3.*/site-packages")
    # rlcore is there by such files too, which a plain path would not have read
    ours = sysconfig.get_path("purelib")
    (packages / "ours.pth").write_text(f"import site; site.addsitedir({ours!r})\n")
    with (packages / "torchvision/extension.py").open("a") as file:
        file.write(OPERATORS)
    return python
